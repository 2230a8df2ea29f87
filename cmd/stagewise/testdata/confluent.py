"""Writes the same rows in every format of messages with Confluent's client and serializers, with IDs of schemas before the values and in
headers: plainly and in transactions, with each compression, and some more in transactions that are aborted.

    confluent.py BROKERS REGISTRY PREFIX    writes to the topics PREFIX.FORMAT and PREFIX.FORMAT.KIND, and the rows to the file rows.arrow
"""

import base64
import json
import random
import sys

import pyarrow
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
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


types = [("kind", "string", "string"), ("x", "double", "number"), ("y", "float", "number"), ("n", "long", "integer")]
avro_schema = json.dumps({"type": "record", "name": "Visit", "fields": [{"name": name, "type": kind} for name, kind, _ in types]})
json_schema = json.dumps({"title": "Visit", "type": "object", "properties": {name: {"type": kind} for name, _, kind in types}})
Visit = visit()
formats = {
    "avro": lambda conf: AvroSerializer(client, avro_schema, conf=conf),
    "json": lambda conf: JSONSerializer(json_schema, client, conf=conf),
    "protobuf": lambda conf: ProtobufSerializer(Visit, client, {"use.deprecated.format": False} | conf),
}
encode = {
    "json": lambda row, _: json.dumps(row),
    "csv": lambda row, _: f"{row['kind']},{row['x']!r},{row['y']!r},{row['n']}",
    "arrow": lambda row, _: arrow(row),
}


def serialize(name, conf):
    """Returns what encodes a row with a serializer of a registry."""
    serializer = formats[name](conf)
    return lambda row, context: serializer(Visit(**row) if name == "protobuf" else row, context)


for name in formats:
    # A registry tells the GUID of a schema when it is looked up, which a serializer does if it may not register.
    encode[f"{name}.framed"] = serialize(name, {})
    encode[f"{name}.header"] = serialize(name, {"auto.register.schemas": False, "schema.id.serializer": header_schema_id_serializer})
topics = {name: f"{prefix}.{name}" for name in encode}
proto = base64.b64encode(Visit.DESCRIPTOR.file.serialized_pb).decode()
for name, text in {"avro": avro_schema, "json": json_schema, "protobuf": proto}.items():
    client.register_schema(topics[f"{name}.header"] + "-value", Schema(text, name.upper()))


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
            context = SerializationContext(topic, MessageField.VALUE, [])
            value = encode[name](row, context)
            assert (context.headers != []) == name.endswith(".header"), context.headers
            producer.produce(topic, value, partition=0, headers=context.headers, on_delivery=lambda error, _: error and failed.append(error))
    producer.flush()


admin = AdminClient({"bootstrap.servers": brokers})
for future in admin.create_topics([NewTopic(topic, num_partitions=1) for topic in topics.values()]).values():
    future.result()
written = []
for number, compression in enumerate(compressions):
    # flush sends what is queued at once. Before it nothing is sent, since a batch of one message is not compressed if that makes it longer.
    settings = {"bootstrap.servers": brokers, "compression.type": compression, "enable.idempotence": True, "linger.ms": 10_000}
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
