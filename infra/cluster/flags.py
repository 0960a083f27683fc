"""Flags that many verbs share."""

from __future__ import annotations

import argparse
from pathlib import Path

DEFAULT_DIR = ".regent"


def add_dir(parser: argparse.ArgumentParser) -> None:
    """The flag that every verb of the local cluster has."""
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(DEFAULT_DIR),
        metavar="FOLDER",
        help=f"data folder of the cluster (default ./{DEFAULT_DIR})",
    )
