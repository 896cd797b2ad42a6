"""Alerts to a Microsoft Teams channel, as an Adaptive Card through a workflow that takes webhook requests.

Source: learn.microsoft.com, "Create incoming webhooks with Workflows for Microsoft Teams"; adaptivecards.io, version
1.4 of its schema. Teams knows no key by which it would drop a message that is sent again.
"""

from __future__ import annotations

from monitor.display.alert_text import explanation, headline
from monitor.model.trends import Alert, AlertState
from monitor.ports import Channel
from monitor.sending.posting import PostedMessages
from monitor.sending.sections import SecretAddress, secret_endpoint

_COLOURS = {AlertState.FIRING: "attention", AlertState.RESOLVED: "good"}


class Config(SecretAddress):
    """The address of a workflow "When a Teams webhook request is received": whoever has it can post."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    return PostedMessages(endpoint=secret_endpoint(config, name), link=config.link, message=_message)


def _message(alert: Alert, link: str) -> dict[str, object]:
    card = _card(alert, link)
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _card(alert: Alert, link: str) -> dict[str, object]:
    # Not a TextBlock, in which Teams reads Markdown.
    title = {"type": "TextRun", "text": headline(alert), "size": "medium", "weight": "bolder"}
    card: dict[str, object] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [
            {"type": "RichTextBlock", "inlines": [{**title, "color": _COLOURS.get(alert.state, "default")}]},
            {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": explanation(alert)}]},
        ],
    }
    if link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the alert", "url": link}]
    return card
