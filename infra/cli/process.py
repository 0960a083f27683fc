"""`regent kafka|controller|namesrv|broker|land`: run one process from a configuration file and
flags.

Every single-valued field of the package's configuration model is a flag; tables (`kafka`, `peers`,
...) take KEY=VALUE, lists are given once per item. Refuses to know what the settings mean.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from brokers.remoting.descriptors import raise_open_files
from infra.kafka.client_settings import check_kafka
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem
from infra.processes import logging as process_logging

ROCKETMQ = ("controller", "namesrv")
"""Those that read Java's properties too."""
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
# options of this command itself, not of the process
OWN = ("config", "log_file", "log_level", "wait_for_start", "print_config", "verb")


@dataclass(frozen=True, slots=True)
class Runnable:
    """Where a process's configuration model and its `run(config)` are."""

    config_module: str
    config_class: str
    run_module: str


RUNNABLE = {
    "kafka": Runnable("infra.kafka.config", "KafkaConfig", "infra.kafka.process"),
    "controller": Runnable(
        "processors.settings.config", "ControllerConfig", "processors.process.controller"
    ),
    "namesrv": Runnable(
        "processors.nameserver.config", "NameServerConfig", "processors.nameserver.process"
    ),
    "broker": Runnable("brokers.process.config", "BrokerConfig", "brokers.process.program"),
    "land": Runnable("lakehouse.landing.config", "LandConfig", "lakehouse.landing.job"),
}


class Once(argparse.Action):
    """A flag of which the second would silently win."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option: str | None = None,
    ) -> None:
        """Keep the first; refuse another."""
        if getattr(namespace, self.dest, None) is not None:
            raise argparse.ArgumentError(
                self, f"{getattr(namespace, self.dest)} is named already, one file only"
            )
        setattr(namespace, self.dest, values)


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """--config, --log-file, --log-level, and one flag per field of the model."""
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        action=Once,
        help=("TOML file; flags win over it")
        + ("; or RocketMQ's own file, *.properties or *.conf" if verb in ROCKETMQ else ""),
    )
    if verb != "kafka":
        parser.add_argument(
            "--log-file", metavar="FILE", type=Path, help=("rotating log file (default: stderr)")
        )
        parser.add_argument("--log-level", choices=LOG_LEVELS, default="INFO", help="default INFO")
        parser.add_argument(
            "--wait-for-start",
            action="store_true",
            help=(
                "load everything, then begin when a line comes on standard input (a supervisor's "
                "spare)"
            ),
        )
    if hasattr(_model(verb), "text"):
        parser.add_argument(
            "-p",
            "--print-config",
            action="store_true",
            help=("print the configuration in force, and end"),
        )
    settings = parser.add_argument_group("settings (the names in the TOML file, with _ for -)")
    for name, field in _model(verb).model_fields.items():
        _add_field(settings, name, field.annotation, _help_of(field))


def _model(verb: str) -> type[BaseModel]:
    place = RUNNABLE[verb]
    model: type[BaseModel] = getattr(
        importlib.import_module(place.config_module), place.config_class
    )
    return model


def _help_of(field: FieldInfo) -> str:
    """What the field is for, and what holds without it."""
    default = field.default
    told = (
        "required"
        if field.is_required()
        else ""
        if default in (None, "", PydanticUndefined) or default == {}
        else (f"default {default}")
    )
    parts = (field.description or "").removesuffix("."), told
    return "; ".join(part for part in parts if part).replace("%", "%%")


def _add_field(group: Any, name: str, annotation: Any, told: str) -> None:
    flag = f"--{name.replace('_', '-')}"
    kinds = [kind for kind in _members(annotation) if kind is not type(None)]
    origin = typing.get_origin(kinds[0]) or kinds[0]
    if origin is dict:
        group.add_argument(
            flag,
            metavar="KEY=VALUE",
            action="append",
            help="; ".join(part for part in (told, "may repeat") if part),
        )
    elif origin in (list, tuple):
        group.add_argument(
            flag,
            metavar="VALUE",
            action="append",
            help="; ".join(part for part in (told, "may repeat") if part),
        )
    elif origin is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=told)
    elif origin is int:
        group.add_argument(flag, type=int, metavar="N", help=told)
    else:
        group.add_argument(flag, metavar="VALUE", help=told)


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    return (annotation,)


def overrides(arguments: argparse.Namespace, verb: str) -> dict[str, Any]:
    """The flags that were given, as fields of the model. Tables from flags lie over the file's
    tables.
    """
    given = {}
    for name, field in _model(verb).model_fields.items():
        value = getattr(arguments, name, None)
        if value is None:
            continue
        kinds = [kind for kind in _members(field.annotation) if kind is not type(None)]
        given[name] = table_of(name, value) if typing.get_origin(kinds[0]) is dict else value
    return given


def table_of(name: str, entries: list[str]) -> dict[str, str]:
    """`KEY=VALUE` of a repeated flag as a table; Problem for anything else."""
    table = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key:
            raise Problem(
                f"--{name} {entry!r} is not KEY=VALUE",
                "Write for example security.protocol=SSL.",
                EXIT_USAGE,
            )
        table[key] = value
    return table


def load_config(verb: str, path: Path | None, given: dict[str, Any]) -> BaseModel:
    """The process's configuration; Problem (exit 2) with the file, the field and what is wrong."""
    place = RUNNABLE[verb]
    module = importlib.import_module(place.config_module)
    load: Callable[..., BaseModel] = (
        getattr(module, "load", None) or getattr(module, place.config_class).load
    )
    if path is not None and not path.exists():
        raise Problem(
            f"configuration {path} does not exist",
            "Name an existing file with --config.",
            EXIT_USAGE,
        )
    try:
        config = load(path, given)
        if kafka := getattr(config, "kafka", None):
            check_kafka(kafka, type(config).model_fields)
        return config
    except Problem:
        raise
    except Exception as error:
        # each package has its own error type for this; all say file, field and reason in one line
        if type(error).__module__.split(".")[0] not in (
            "events",
            "brokers",
            "processors",
            "lakehouse",
        ):
            raise
        text = str(error)
        raise Problem(
            text if text.startswith("configuration") else f"configuration {text}",
            f"Correct it; 'regent {verb} --help' lists the settings.",
            EXIT_USAGE,
        ) from error


def run(arguments: argparse.Namespace) -> int:
    """Run the process until it ends or is asked to stop (SIGTERM, SIGINT: a clean stop, exit code
    0).
    """
    verb = arguments.verb
    config = load_config(verb, arguments.config, overrides(arguments, verb))
    if getattr(arguments, "print_config", False):
        print(config.text(), end="")  # type: ignore[attr-defined]
        for note in getattr(config, "notes", ()):
            print(f"regent: configuration: {note}", file=sys.stderr)
        return EXIT_DONE
    if verb != "kafka":
        process_logging.configure(arguments.log_file, arguments.log_level)
    try:
        entry = importlib.import_module(RUNNABLE[verb].run_module).run
    except ModuleNotFoundError as error:
        raise Problem(
            f"regent {verb} is not part of this release ({error.name} is missing)", ""
        ) from error
    if getattr(arguments, "wait_for_start", False) and not sys.stdin.buffer.readline():
        return EXIT_DONE
    for note in getattr(config, "notes", ()):
        level = logging.WARNING if note in config.warnings else logging.INFO  # type: ignore[attr-defined]
        logging.getLogger("regent.process").log(level, "configuration: %s", note)
    files = raise_open_files()
    logging.getLogger("regent.process").info(
        "%s starts as pid %d, with up to %d open files", verb, os.getpid(), files
    )
    try:
        result = asyncio.run(entry(config)) if asyncio.iscoroutinefunction(entry) else entry(config)
    except OSError as error:
        raise Problem(f"{verb} cannot run: {error}", "See its configuration.") from error
    return int(result or 0)
