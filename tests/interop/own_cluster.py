"""A cluster of Regent for one scenario, from its start to its end.

Responsible for: that it stops in order behind what succeeded, and ends whatever happened. Refuses
to know what is played on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.interop.stage import Stage
from tests.support.local_cluster import LocalCluster


@contextmanager
def own_cluster(
    stage: Stage, *flags: str, folder: str = "cluster", java_client: bool = True
) -> Iterator[LocalCluster]:
    """`flags` go to `regent up`. `java_client`: one will be started, so that a compiler which is
    missing is said before anything starts.
    """
    cluster = LocalCluster(stage.work / folder, *flags)
    try:
        if java_client:
            stage.client_class_path  # noqa: B018
        stage.say("starting a cluster: Kafka, two controllers, a name server, three brokers")
        cluster.up()
        yield cluster
        cluster.down()
    finally:
        cluster.end()
