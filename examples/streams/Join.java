import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Joins rows of JSON with the outcomes that come later, on topics with equal partitioning, and writes the rows with their labels to a
 * third topic. What waits is in stores of Kafka Streams, which any number of processes share. The rules are those of examples.outcome, so
 * the rows are the same: see docs/later-labels.md.
 */
public final class Join {
  /** The keys of a configuration that begin with "join."; the others are those of Kafka Streams. */
  record Rule(String rows, String outcomes, String joined, String label, String absent, long within, long early) {
    static Rule of(Properties p) {
      return new Rule(get(p, "rows"), get(p, "outcomes"), get(p, "joined"), get(p, "label"), get(p, "absent"),
          Duration.parse(get(p, "within")).toMillis(), Duration.parse(get(p, "early")).toMillis());
    }

    private static String get(Properties p, String key) {
      String value = p.getProperty("join." + key);
      if (value == null) {
        throw new IllegalArgumentException("join." + key + " is not set");
      }
      return value;
    }
  }

  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(args[0]))) {
      p.load(file);
    }
    // A row is written once, whatever dies: with its state and the offsets of what was read, in a transaction.
    p.putIfAbsent(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    Rule rule = Rule.of(p);
    checkPartitions(p, rule);
    KafkaStreams streams = new KafkaStreams(topology(rule), p);
    streams.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.setStateListener((state, before) -> {
      if (state == KafkaStreams.State.ERROR) {
        Runtime.getRuntime().halt(1);
      }
    });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  /** A row finds its outcome in the partition with the same number. */
  static void checkPartitions(Properties p, Rule rule) throws Exception {
    try (Admin admin = Admin.create(p)) {
      var topics = admin.describeTopics(List.of(rule.rows, rule.outcomes)).allTopicNames().get();
      int rows = topics.get(rule.rows).partitions().size(), outcomes = topics.get(rule.outcomes).partitions().size();
      if (rows != outcomes) {
        throw new IllegalArgumentException(rule.rows + " has " + rows + " partitions and " + rule.outcomes + " has " + outcomes
            + ": write one of them again, with as many partitions as the other");
      }
    }
  }

  static Topology topology(Rule rule) {
    Topology t = new Topology();
    t.addSource("read", new StringDeserializer(), new ByteArrayDeserializer(), rule.rows, rule.outcomes);
    t.addProcessor("join", () -> new Joiner(rule), "read");
    for (String name : List.of("row", "outcome")) {
      t.addStateStore(store(name, Serdes.ByteArray()), "join");
      t.addStateStore(store(name + "-times", Serdes.String()), "join");
    }
    t.addStateStore(store("clock", Serdes.Long()), "join");
    t.addSink("write", rule.joined, new StringSerializer(), new ByteArraySerializer(), "join");
    return t;
  }

  /** A store on the disk, which a topic of Kafka Streams has too: another process makes it again from there. */
  static <V> StoreBuilder<KeyValueStore<String, V>> store(String name, Serde<V> values) {
    return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), values);
  }

  /** Joins one partition of both topics. */
  static final class Joiner implements Processor<String, byte[], String, byte[]> {
    private final Rule rule;
    private final ObjectMapper json = new ObjectMapper();
    private ProcessorContext<String, byte[]> context;
    private Kept rows; // that wait
    private Kept outcomes; // of which a row may come
    private KeyValueStore<String, Long> clock; // by topic the latest time

    Joiner(Rule rule) {
      this.rule = rule;
    }

    @Override
    public void init(ProcessorContext<String, byte[]> context) {
      this.context = context;
      rows = new Kept(context, "row");
      outcomes = new Kept(context, "outcome");
      clock = context.getStateStore("clock");
    }

    @Override
    public void process(Record<String, byte[]> r) {
      var from = context.recordMetadata().orElseThrow();
      long time = Math.max(r.timestamp(), timeOf(from.topic()));
      clock.put(from.topic(), time);
      if (from.topic().equals(rule.outcomes)) {
        outcome(r.key(), r.value(), time, from.offset());
      } else if (r.key() != null && r.value() != null) {
        row(r.key(), r.value(), time, from.offset());
      }
    }

    private long timeOf(String topic) {
      Long time = clock.get(topic);
      return time == null ? 0 : time;
    }

    private boolean counts(long outcome, long row) {
      return outcome >= row - rule.early && outcome <= row + rule.within;
    }

    private void row(String key, byte[] row, long time, long offset) {
      String label = null;
      for (Entry o : outcomes.of(key)) { // in the order of their offsets: the first counts
        if (label == null && counts(o.time, time)) {
          label = new String(o.value, UTF_8);
        }
      }
      if (label != null) {
        write(key, row, time, label);
      } else if (timeOf(rule.outcomes) > time + rule.within) {
        write(key, row, time, rule.absent);
      } else {
        rows.add(key, row, time, offset);
      }
      outcomes.takeBefore(time - rule.early, (k, o) -> {}); // later rows are too late for them
    }

    private void outcome(String key, byte[] value, long time, long offset) {
      String label = key == null || value == null ? null : labelOf(value);
      if (label != null) {
        for (Entry row : rows.of(key)) {
          if (counts(time, row.time)) {
            rows.remove(row);
            write(key, row.value, row.time, label);
          }
        }
        if (time >= timeOf(rule.rows) - rule.early) { // else no row comes that it counts for
          outcomes.add(key, label.getBytes(UTF_8), time, offset);
        }
      }
      rows.takeBefore(time - rule.within, (k, row) -> write(k, row.value, row.time, rule.absent)); // their time is over
    }

    private String labelOf(byte[] outcome) {
      try {
        JsonNode label = json.readTree(outcome).get(rule.label);
        return label == null || label.isNull() ? null : label.asText();
      } catch (IOException e) {
        return null; // it is no outcome
      }
    }

    private void write(String key, byte[] row, long time, String label) {
      try {
        if (json.readTree(row) instanceof ObjectNode object) {
          row = json.writeValueAsBytes(object.put(rule.label, label));
        }
      } catch (IOException e) {
        // Who reads it puts it into quarantine.
      }
      context.forward(new Record<>(key, row, time));
    }
  }

  /** A message that is kept, and where: in the store of its key, and in that of its time. */
  record Entry(String at, String due, long time, byte[] value) {}

  /** Messages by key and by time. */
  static final class Kept {
    private final KeyValueStore<String, byte[]> byKey; // key, 0, offset: time and value
    private final KeyValueStore<String, String> byTime; // time and offset: the place in byKey
    private long taken; // what is earlier was taken out, so a search need not pass it

    Kept(ProcessorContext<?, ?> context, String name) {
      byKey = context.getStateStore(name);
      byTime = context.getStateStore(name + "-times");
    }

    private static String hex(long v) {
      return HexFormat.of().toHexDigits(v);
    }

    void add(String key, byte[] value, long time, long offset) {
      String at = key + "\0" + hex(offset);
      byKey.put(at, ByteBuffer.allocate(8 + value.length).putLong(time).put(value).array());
      byTime.put(hex(time) + hex(offset), at);
    }

    void remove(Entry e) {
      byKey.delete(e.at);
      byTime.delete(e.due);
    }

    private static Entry entry(String at, byte[] kept) {
      ByteBuffer b = ByteBuffer.wrap(kept);
      long time = b.getLong();
      byte[] value = new byte[b.remaining()];
      b.get(value);
      return new Entry(at, hex(time) + at.substring(at.length() - 16), time, value);
    }

    /** Returns what is kept of a key, in the order of the offsets. */
    List<Entry> of(String key) {
      List<Entry> found = new ArrayList<>();
      try (var all = byKey.prefixScan(key + "\0", new StringSerializer())) {
        all.forEachRemaining(kv -> found.add(entry(kv.key, kv.value)));
      }
      return found;
    }

    /** Takes out what is earlier than a time, and gives it to a function with its key, the oldest first. */
    void takeBefore(long time, BiConsumer<String, Entry> to) {
      if (time <= taken) {
        return;
      }
      List<String> places = new ArrayList<>();
      try (var all = byTime.range(hex(taken), hex(time))) { // shorter keys come first
        all.forEachRemaining(kv -> places.add(kv.value));
      }
      taken = time;
      for (String at : places) {
        Entry e = entry(at, byKey.get(at));
        remove(e);
        to.accept(at.substring(0, at.length() - 17), e);
      }
    }
  }
}
