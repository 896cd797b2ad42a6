"""The command `rag-monitor`: a file each for its verbs. Exit status: 0 ok, 1 failed or not there, 2 usage."""

from __future__ import annotations

import sys
from importlib.metadata import version

import click

from monitor.cli.alerts import alerts
from monitor.cli.channels import channels
from monitor.cli.check import check
from monitor.cli.demo import demo
from monitor.cli.doctor import doctor
from monitor.cli.erase import erase
from monitor.cli.explain import explain
from monitor.cli.judge import judge
from monitor.cli.migrate import migrate
from monitor.cli.options import before_verbs, examples, refuse_unused
from monitor.cli.output import FAILED
from monitor.cli.prompts import prompts
from monitor.cli.reassemble import reassemble
from monitor.cli.replay import replay
from monitor.cli.run import run
from monitor.cli.score import score
from monitor.cli.trends import trends
from monitor.cli.turns import turns
from monitor.errors import ConfigError, MonitorError
from monitor.log_lines import configure_logging, show_fault

_USAGE, _INTERRUPTED = 2, 130
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


def main() -> None:
    """Run the command and exit with its status."""
    sys.excepthook = show_fault
    configure_logging("WARNING")
    try:
        status = commands(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(_INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(_USAGE)
    except ConfigError as error:
        click.echo(f"rag-monitor: {error}", err=True)
        sys.exit(_USAGE)
    except MonitorError as error:
        click.echo(f"rag-monitor: {error}", err=True)
        sys.exit(FAILED)
    sys.exit(status if isinstance(status, int) else 0)


@before_verbs
@click.group(context_settings=_CONTEXT, epilog=examples("rag-monitor demo", "rag-monitor run", "rag-monitor trends"))
@click.version_option(version("rag-monitor"), prog_name="rag-monitor")
def commands() -> None:
    """Watch deployed RAG chat apps: OpenTelemetry in, judged turns, honest trends and alerts out.

    Exit status: 0 when it is done, 1 when it failed or what was asked for is not there (a turn, trace, app or metric),
    2 when the command or the settings are wrong.
    """
    refuse_unused()


_AT_WORK = (run, check, doctor, migrate, replay, reassemble, score, erase)
_TO_LOOK = (turns, trends, alerts, explain, channels, judge, prompts, demo)
for verb in (*_AT_WORK, *_TO_LOOK):
    commands.add_command(verb)
