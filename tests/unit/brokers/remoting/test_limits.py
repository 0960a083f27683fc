"""The defaults are RocketMQ's where it has them, and nothing is unbounded."""

from dataclasses import fields

from brokers.remoting.limits import Limits


def test_frames_and_idle_connections_are_bounded_as_in_rocketmq():
    assert Limits().frame_bytes == 16_777_216
    assert Limits().idle_ms == 120_000


def test_every_limit_is_set():
    assert all(getattr(Limits(), field.name) > 0 for field in fields(Limits))


def test_a_connection_is_paused_before_it_is_dropped():
    assert Limits().write_pause_bytes < Limits().write_buffer_bytes
    assert Limits().write_buffer_bytes > Limits().frame_bytes
