"""The Kafka fixtures: a real broker that keeps what it acknowledged, whatever a test does to it."""

import gc
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from deadline import wait_until
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError, MessageSizeTooLargeError
from kafka_service import KafkaBroker, TopicFactory


def produce(broker: KafkaBroker, topic: str, values: tuple[bytes, ...]) -> None:
    """Send `values` to `topic` and wait until the broker acknowledged each."""
    with KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", compression_type="gzip") as producer:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(timeout=20)


def consume(broker: KafkaBroker, topic: str, count: int) -> list[bytes]:
    """The first `count` values of `topic`'s partitions, or fewer where no more come within 20 s."""
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)])
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


def numbered(count: int) -> tuple[bytes, ...]:
    """`count` distinct values."""
    return tuple(b"value %d" % number for number in range(count))


def test_produced_records_are_consumed(kafka_broker: KafkaBroker, kafka_topic: TopicFactory) -> None:
    """A hundred acknowledged records over three partitions are read back, each once."""
    topic = kafka_topic(3)
    produce(kafka_broker, topic, numbered(100))
    assert sorted(numbered(100)) == sorted(consume(kafka_broker, topic, 100))


def test_topics(kafka_broker: KafkaBroker, kafka_topic: TopicFactory) -> None:
    """A topic has a name of its own, the partitions asked for, and the configuration asked for."""
    first, second = kafka_topic(3), kafka_topic(configuration={"max.message.bytes": "1000"})
    with kafka_broker.admin() as admin:
        described = {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics([first, second])}
    assert {first: 3, second: 1} == described
    with pytest.raises(MessageSizeTooLargeError):
        produce(kafka_broker, second, (secrets.token_bytes(2000),))


def test_unknown_topic(kafka_broker: KafkaBroker) -> None:
    """The broker creates no topic because somebody wrote to it."""
    with (
        KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, max_block_ms=300) as producer,
        pytest.raises(KafkaTimeoutError),
    ):
        producer.send("never-created", b"value")


def test_frozen_broker(kafka_broker: KafkaBroker, kafka_topic: TopicFactory) -> None:
    """A frozen broker acknowledges nothing, and what was sent meanwhile is acknowledged once it is thawed."""
    topic = kafka_topic()
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, acks="all") as producer:
        producer.send(topic, b"before").get(timeout=20)
        kafka_broker.freeze()
        during = producer.send(topic, b"during")
        with pytest.raises(KafkaTimeoutError):
            during.get(timeout=0.5)
        kafka_broker.thaw()
        during.get(timeout=20)
    assert [b"before", b"during"] == consume(kafka_broker, topic, 2)


@pytest.mark.parametrize("end", [KafkaBroker.stop, KafkaBroker.kill])
def test_data_outlives_the_process(
    end: Callable[[KafkaBroker], None], kafka_broker: KafkaBroker, kafka_topic: TopicFactory
) -> None:
    """What was acknowledged is still there, at the same address, after the broker was stopped or killed."""
    topic, address = kafka_topic(), kafka_broker.bootstrap
    produce(kafka_broker, topic, numbered(10))
    end(kafka_broker)
    assert not kafka_broker.running
    kafka_broker.restart()
    assert address == kafka_broker.bootstrap
    assert list(numbered(10)) == consume(kafka_broker, topic, 10)


def test_client_of_a_stopped_broker(kafka_broker: KafkaBroker, kafka_topic: TopicFactory) -> None:
    """A client that is refused again and again leaves no warning behind, and reads on after the restart."""
    topic = kafka_topic()
    with KafkaConsumer(
        topic, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest", reconnect_backoff_max_ms=200
    ) as consumer:
        consumer.poll(timeout_ms=100)
        kafka_broker.stop()
        assert {} == consumer.poll(timeout_ms=1000)
        gc.collect()
        kafka_broker.start()
        produce(kafka_broker, topic, (b"after",))
        read = wait_until(lambda: consumer.poll(timeout_ms=500), "the record", seconds=20)
    assert [b"after"] == [record.value for records in read.values() for record in records]


def test_restart_from_another_thread(kafka_broker: KafkaBroker) -> None:
    """A broker restarted by a thread goes on when that thread has ended."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(kafka_broker.restart).result()
    with kafka_broker.admin() as admin:
        assert 1 == len(admin.describe_cluster()["brokers"])


@pytest.mark.parametrize("harm", [KafkaBroker.freeze, KafkaBroker.stop])
def test_healed(harm: Callable[[KafkaBroker], None], kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> None:
    """A broker that a test leaves frozen or down is back before the fixtures of that test are torn down."""

    def answers() -> None:
        with kafka_broker.admin() as admin:
            assert 1 == len(admin.describe_cluster()["brokers"])

    request.addfinalizer(answers)
    harm(kafka_broker)
