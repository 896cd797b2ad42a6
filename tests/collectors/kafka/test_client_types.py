"""kafka-python is used below its documented interface; whatever is used of it is there, in the shape that we rely on.

When one of these fails after an upgrade, read the release's changes, then adapt `client_types.py` and `client.py`, and
raise the bound in `pyproject.toml`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import ConsumerRecord
from kafka.future import Future
from kafka.producer.future import FutureRecordMetadata
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndTimestamp

from collectors.kafka import client_types

VERSION = f"kafka-python {kafka.__version__}"
SHAPES: dict[type, type] = {
    client_types.Answer: Future,
    client_types.Client: KafkaConsumer.DEFAULT_CONFIG["kafka_client"],
    client_types.Cluster: ClusterMetadata,
    client_types.Consumer: KafkaConsumer,
    client_types.GroupMetadata: ConsumerGroupMetadata,
    client_types.OffsetAtTime: OffsetAndTimestamp,
    client_types.Producer: KafkaProducer,
    client_types.Record: ConsumerRecord,
    client_types.Sent: FutureRecordMetadata,
}
"""Each of our protocols, and the class of kafka-python that it describes."""


def methods(shape: type) -> Iterator[tuple[str, inspect.Signature]]:
    """The methods that a protocol declares."""
    for name, member in vars(shape).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            yield name, inspect.signature(member)


def call(signature: inspect.Signature) -> tuple[list[object], dict[str, object]]:
    """Arguments as our code gives them: by position where the protocol allows it, else by name."""
    parameters = signature.parameters.values()
    positional = [object() for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    named = {parameter.name: object() for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    return positional, named


@pytest.mark.parametrize(("shape", "real"), SHAPES.items(), ids=lambda class_: class_.__name__)
def test_methods(shape: type, real: type) -> None:
    """Every method that we call is there and takes the arguments that we give it."""
    for name, declared in methods(shape):
        assert hasattr(real, name), f"{VERSION}: {real.__name__}.{name} is gone"
        positional, named = call(declared)
        try:
            inspect.signature(getattr(real, name)).bind(*positional, **named)
        except TypeError as error:
            pytest.fail(f"{VERSION}: {real.__name__}.{name} takes other arguments than {declared}: {error}")


@pytest.mark.parametrize(
    ("shape", "real"), [(shape, real) for shape, real in SHAPES.items() if shape is not client_types.Cluster]
)
def test_attributes(shape: type, real: type) -> None:
    """Every attribute that we read is there."""
    for name in vars(shape).get("__annotations__", {}):
        assert hasattr(real, name), f"{VERSION}: {real.__name__}.{name} is gone"


def test_cluster_metadata() -> None:
    """The two switches of a cluster's metadata are there, and decide what its requests ask for."""
    cluster = ClusterMetadata()
    assert cluster.config["allow_auto_create_topics"], f"{VERSION}: topics are not created by asking any more"
    cluster.config["allow_auto_create_topics"] = False
    assert not cluster.metadata_request().allow_auto_topic_creation
    assert not cluster.need_all_topic_metadata
    cluster.need_all_topic_metadata = True
    assert cluster.metadata_request().topics is None, f"{VERSION}: a request for all topics has another form"


@pytest.mark.parametrize("opened", [KafkaConsumer, KafkaProducer])
def test_client_option(opened: type) -> None:
    """What makes the client below a consumer or producer can be replaced, which `client.py` needs to close it."""
    make = opened.DEFAULT_CONFIG.get("kafka_client")
    assert callable(make), f"{VERSION}: {opened.__name__} has no option kafka_client"


def test_member_states() -> None:
    """The states of a member are what `Connection.rebalancing` and the check of membership compare with."""
    states = {name: state for name, state in vars(MemberState).items() if name.isupper()}
    assert {"UNJOINED", "REBALANCING", "STABLE"} == set(states), f"{VERSION}: members have other states"
    assert ConsumerGroupMetadata().state == MemberState.UNJOINED
