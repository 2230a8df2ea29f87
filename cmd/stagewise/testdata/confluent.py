"""Writes the same rows in every format of messages with Confluent's client and serializers: plainly and in transactions, with each
compression, and some more in transactions that are aborted.

    confluent.py BROKERS REGISTRY PREFIX    writes to the topics PREFIX.FORMAT, and the rows to the file rows.arrow
"""

import json
import random
import sys

import pyarrow
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

brokers, registry, prefix = sys.argv[1:]
compressions = ["none", "gzip", "snappy", "lz4", "zstd"]
chunk = 100  # rows with a compression, in transactions or not
schema = pyarrow.schema([("kind", pyarrow.string()), ("x", pyarrow.float64()), ("y", pyarrow.float32()), ("n", pyarrow.int64())])
client = SchemaRegistryClient({"url": registry})


def visit():
    """Returns the class of messages in Protobuf."""
    proto = descriptor_pb2.FileDescriptorProto(name="visit.proto", package="shop", syntax="proto3")
    message = proto.message_type.add(name="Visit")
    types = {"kind": "STRING", "x": "DOUBLE", "y": "FLOAT", "n": "SINT64"}
    for number, (name, kind) in enumerate(types.items(), 1):
        field = message.field.add(name=name, number=number, label=1)
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value("TYPE_" + kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Visit"))


def arrow(row):
    out = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(out, schema) as stream:
        stream.write_table(pyarrow.Table.from_pylist([row], schema))
    return out.getvalue().to_pybytes()


fields = [{"name": name, "type": kind} for name, kind in [("kind", "string"), ("x", "double"), ("y", "float"), ("n", "long")]]
in_avro = AvroSerializer(client, json.dumps({"type": "record", "name": "Visit", "fields": fields}))
Visit = visit()
in_protobuf = ProtobufSerializer(Visit, client, {"use.deprecated.format": False})
encode = {
    "json": lambda row, _: json.dumps(row),
    "csv": lambda row, _: f"{row['kind']},{row['x']!r},{row['y']!r},{row['n']}",
    "arrow": lambda row, _: arrow(row),
    "avro": in_avro,
    "protobuf": lambda row, context: in_protobuf(Visit(**row), context),
}
topics = {name: f"{prefix}.{name}" for name in encode}


def rows(seed, kinds):
    """Returns rows whose numbers are not the same ones as decimals, float32 and float64."""
    draw = random.Random(seed)
    single = lambda v: pyarrow.scalar(v, pyarrow.float32()).as_py()
    for i in range(chunk):
        kind = kinds[i % len(kinds)]
        yield {"kind": kind, "x": draw.gauss(len(kind), 1), "y": single(draw.random()), "n": draw.randrange(-(2**20), 2**20)}


failed = []


def write(producer, some):
    for name, topic in topics.items():
        for row in some:
            value = encode[name](row, SerializationContext(topic, MessageField.VALUE))
            producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failed.append(error))
    producer.flush()


admin = AdminClient({"bootstrap.servers": brokers})
for future in admin.create_topics([NewTopic(topic, num_partitions=1) for topic in topics.values()]).values():
    future.result()
written = []
for number, compression in enumerate(compressions):
    settings = {"bootstrap.servers": brokers, "compression.type": compression, "enable.idempotence": True, "linger.ms": 20}
    producer, some = Producer(settings), list(rows(number, ["tall", "wide"]))
    write(producer, some)
    written += some
    producer = Producer(settings | {"transactional.id": f"{prefix}-{compression}"})
    producer.init_transactions()
    some = list(rows(number + 100, ["tall", "wide"]))
    for part, commits in [(some[:60], True), (list(rows(number + 200, ["aborted"]))[:20], False), (some[60:], True)]:
        producer.begin_transaction()
        write(producer, part)
        producer.commit_transaction() if commits else producer.abort_transaction()
    written += some
table = pyarrow.Table.from_pylist(written, schema)
with pyarrow.OSFile("rows.arrow", "wb") as sink, pyarrow.ipc.new_file(sink, schema) as out:
    out.write_table(table)
sys.exit(f"not delivered: {failed[0]}" if failed else None)
