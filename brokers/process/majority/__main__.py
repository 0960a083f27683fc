"""`python -m brokers.process.majority --config FILE`: one member of a majority group."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from brokers.process.majority.config import MemberConfig
from brokers.process.majority.program import EXIT_REFUSED, run
from events.config_file import ConfigError, load_config


def main(words: Sequence[str] | None = None) -> int:
    """The exit code; usage and configuration that cannot be: 2."""
    parser = argparse.ArgumentParser("python -m brokers.process.majority", description=__doc__)
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, required=True)
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING"), default="INFO")
    arguments = parser.parse_args(words)
    logging.basicConfig(
        level=arguments.log_level,
        format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
    try:
        config = load_config(MemberConfig, arguments.config)
    except ConfigError as error:
        logging.getLogger("regent.majority").error("%s", error)
        return EXIT_REFUSED
    return asyncio.run(run(config))


if __name__ == "__main__":
    sys.exit(main())
