"""Alerts to a Slack channel, through an incoming webhook.

Source: docs.slack.dev, "Sending messages using incoming webhooks" and "Reference: blocks". Slack knows no key by which
it would drop a message that is sent again.
"""

from __future__ import annotations

import html

from monitor.display.alert_text import explanation, headline, one_line
from monitor.model.trends import Alert
from monitor.ports import Channel
from monitor.sending.posting import PostedMessages
from monitor.sending.sections import SecretAddress, secret_endpoint

_LONGEST_HEADER = 150
_LONGEST_SECTION = 3000


class Config(SecretAddress):
    """The address of an incoming webhook, `https://hooks.slack.com/services/...`: whoever has it can post."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    return PostedMessages(endpoint=secret_endpoint(config, name), link=config.link, message=_message)


def _message(alert: Alert, link: str) -> dict[str, object]:
    blocks: list[object] = [
        {"type": "header", "text": _plain(headline(alert), _LONGEST_HEADER)},
        {"type": "section", "text": _plain(explanation(alert), _LONGEST_SECTION)},
    ]
    if link:
        # Not a button: pressing one makes Slack call back, and complain where nobody listens.
        blocks.append(
            {"type": "context", "elements": [{"type": "mrkdwn", "text": f"<{html.escape(link, quote=False)}>"}]}
        )
    # `text` is what notifications show beside the blocks, and is read as mrkdwn.
    return {"text": headline(alert), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _plain(text: str, most: int) -> dict[str, object]:
    """Return text in which Slack looks for no markup, mention or emoji."""
    return {"type": "plain_text", "text": one_line(text, most=most), "emoji": False}
