"""`prio task import`: take part in a task that was made elsewhere.

Its parties agreed on an encoded `TaskConfiguration`: it is decoded, and must encode to the same
bytes again, because every report is bound to them. Everything else, such as keys and tokens, DAP
leaves to the parties.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import Config, OfProfile
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dap.task import TaskConfiguration
    from aggregator.dp.policy import PrivacyPolicy


def import_(
    configuration: Annotated[
        str, typer.Option(help="The encoded TaskConfiguration: hexadecimal or base64url, or @FILE.")
    ],
    collector_config: Annotated[
        str, typer.Option(help="The collector's HpkeConfig to which results are sealed, base64url.")
    ],
    max_reports: Annotated[int, typer.Option(help="The most reports that one batch may hold.")],
    task_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="The task id, base64url; the hash of the configuration if not given, by which a "
            "task comes in band.",
        ),
    ] = None,
    verify_key: Annotated[
        str | None,
        typer.Option(envvar="PRIO_VERIFY_KEY", help="For an aggregator: the verification key."),
    ] = None,
    verify_key_id: Annotated[
        int,
        typer.Option(min=0, max=255, help="The id by which the parties name the verification key."),
    ] = 0,
    leader_token: Annotated[
        str | None,
        typer.Option(
            envvar="PRIO_LEADER_TOKEN",
            help="For an aggregator: the token that the leader sends to the helper.",
        ),
    ] = None,
    collector_token: Annotated[
        str | None,
        typer.Option(
            envvar="PRIO_COLLECTOR_TOKEN",
            help="For the leader and the collector: the token that the collector sends to "
            "the leader.",
        ),
    ] = None,
    token_header: Annotated[
        str,
        typer.Option(help="The header in which tokens are sent: Authorization or DAP-Auth-Token."),
    ] = "Authorization",  # noqa: S107  a header's name
    profile: OfProfile = "dap-18",
    privacy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="This party's own policy, if the configuration binds none: mechanism=None, "
            "or mechanism=PureDpDiscreteLaplace and epsilon=1. Repeatable.",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Take part in a task made elsewhere, under the exact bytes of its configuration.

    Keys and tokens are better given by the environment, which other users of the machine cannot
    list. Importing a task again changes nothing.
    """
    from aggregator.cli.service.parties import open_party, task_id_of
    from aggregator.cli.service.taking_part import take_part
    from aggregator.cli.service.task_making import collector_config_of
    from aggregator.dap.auth import token_header_named
    from aggregator.dap.profile import Role, profile_named
    from aggregator.protocol.in_band import id_of
    from aggregator.protocol.provisioning import provision_text
    from aggregator.protocol.task import Task
    from aggregator.protocol.task_file import check_restored

    decoded, data = _configuration(configuration)
    task = Task.create(
        task_id=id_of(data) if task_id is None else task_id_of(task_id),
        configuration=decoded,
        collector_hpke_config=collector_config_of(collector_config),
        max_reports=max_reports,
        unbound_policy=_policy(decoded, privacy or []),
        profile=profile_named(profile),
        token_header=token_header_named(token_header),
    )
    check_restored(task, data)
    with open_party(config) as party:
        role: Role = getattr(party, "role", Role.COLLECTOR)
        secrets = {
            "verify_key": verify_key,
            "leader_token": leader_token,
            "collector_token": collector_token,
        }
        for added in take_part(party, provision_text(task, role, secrets, verify_key_id)):
            print(f"{added.task_id}  fingerprint {added.fingerprint}")


def _configuration(text: str) -> "tuple[TaskConfiguration, bytes]":
    from aggregator.codec import DecodeError, decode
    from aggregator.dap.ids import decode_base64url
    from aggregator.dap.task import TaskConfiguration
    from aggregator.service.config import read_text

    if text.startswith("@"):
        text = read_text(Path(text[1:])).strip()
    try:
        data = bytes.fromhex(text)
    except ValueError:
        try:
            data = decode_base64url(text)
        except DecodeError:
            raise ParameterError(
                "configuration: must be hexadecimal, or base64url without padding; "
                "@FILE reads a file"
            ) from None
    try:
        return decode(TaskConfiguration, data), data
    except DecodeError as error:
        raise ParameterError(f"configuration: {error}") from None


def _policy(decoded: "TaskConfiguration", privacy: list[str]) -> "PrivacyPolicy | None":
    from aggregator.cli.service.task_making import assignment
    from aggregator.dp.policy_table import policy_from_mapping

    if decoded.privacy is not None:
        if privacy:
            raise ParameterError(
                "privacy: the configuration binds a policy already; leave --privacy out"
            )
        return None
    if not privacy:
        raise ParameterError(
            "privacy: the configuration binds no policy, as with every task that another program "
            "made, so this party alone applies the one that it is given: --privacy mechanism=None "
            "for exact results, or --privacy mechanism=PureDpDiscreteLaplace --privacy epsilon=1"
        )
    return policy_from_mapping(dict(assignment(text) for text in privacy))
