"""What an endpoint's own content filter says it found, in Azure's form, on the scale of the safety metrics.

Source: Azure OpenAI, "Content filtering", `content_filter_result` of a refused prompt and `content_filter_results` of a
choice: `{"violence": {"filtered": true, "severity": "high"}, "jailbreak": {"filtered": true, "detected": true}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SEVERITIES: Mapping[str, int] = MappingProxyType({"safe": 0, "low": 2, "medium": 4, "high": 6})
"""Azure's four levels on the scale of 0 to 7, each at the foot of its level."""

_RISKS = MappingProxyType(
    {
        "hate": "hate_unfairness",
        "sexual": "sexual",
        "violence": "violence",
        "self_harm": "self_harm",
        "selfharm": "self_harm",
    }
)


def severities(results: object) -> Mapping[str, int]:
    """Return the severity by safety metric; empty for anything that is not in the form above.

    >>> severities({"hate": {"filtered": False, "severity": "safe"}, "violence": {"severity": "high"}, "jailbreak": {}})
    {'hate_unfairness': 0, 'violence': 6}
    """
    graded: dict[str, int] = {}
    for name, entry in results.items() if isinstance(results, dict) else ():
        risk = _RISKS.get(name) if isinstance(name, str) else None
        level = entry.get("severity") if isinstance(entry, dict) else None
        if risk and isinstance(level, str) and level in SEVERITIES:
            graded[risk] = SEVERITIES[level]
    return graded
