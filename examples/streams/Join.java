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
  record Rule(String rows, String outcomes, String joined, String label, String absent, long within, long early,
      long grace) {
    static Rule of(Properties p) {
      return new Rule(get(p, "rows"), get(p, "outcomes"), get(p, "joined"), get(p, "label"), get(p, "absent"),
          Duration.parse(get(p, "within")).toMillis(), Duration.parse(get(p, "early")).toMillis(),
          Duration.parse(get(p, "grace")).toMillis());
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
      long latest = Math.max(r.timestamp(), timeOf(from.topic()));
      clock.put(from.topic(), latest);
      long behind = r.timestamp() < 0 ? 0 : latest - r.timestamp();
      if (from.topic().equals(rule.outcomes)) {
        outcome(r.key(), r.value(), new Entry(latest, behind, from.offset()));
      } else if (r.key() != null && r.value() != null) {
        row(r.key(), r.value(), new Entry(latest - behind + rule.within + rule.grace, behind, from.offset()));
      }
    }

    private long timeOf(String topic) {
      Long time = clock.get(topic);
      return time == null ? 0 : time;
    }

    private long timeOf(Entry row) {
      return row.due - rule.within - rule.grace;
    }

    private boolean counts(Entry outcome, Entry row) {
      long time = timeOf(row), of = outcome.due - outcome.behind; // the messages' own times
      return of >= time - rule.early && of <= time + rule.within && outcome.due <= row.due
          && outcome.due >= time + row.behind - rule.early - rule.grace;
    }

    private void row(String key, byte[] value, Entry row) {
      String label = null;
      for (var o : outcomes.of(key)) { // in the order of their offsets: the first counts
        if (label == null && counts(o.entry, row)) {
          label = new String(o.value, UTF_8);
        }
      }
      if (label != null) {
        write(key, value, timeOf(row), label);
      } else if (timeOf(rule.outcomes) > row.due) {
        write(key, value, timeOf(row), rule.absent);
      } else {
        rows.add(key, value, row);
      }
      outcomes.takeBefore(timeOf(rule.rows) - rule.early - rule.grace, (k, o) -> {}); // later rows are too late for them
    }

    private void outcome(String key, byte[] value, Entry outcome) {
      String label = key == null || value == null ? null : labelOf(value);
      if (label != null) {
        for (var row : rows.of(key)) {
          if (counts(outcome, row.entry)) {
            rows.remove(row);
            write(key, row.value, timeOf(row.entry), label);
          }
        }
        if (outcome.due >= timeOf(rule.rows) - rule.early - rule.grace) { // else no row comes that it counts for
          outcomes.add(key, label.getBytes(UTF_8), outcome);
        }
      }
      rows.takeBefore(outcome.due, (k, row) -> write(k, row.value, timeOf(row.entry), rule.absent)); // their time is over
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

  /** Until when a row waits, or the latest time of the topic at an outcome; how far the message is behind; and its offset. */
  record Entry(long due, long behind, long offset) {
    String place() {
      return Kept.hex(due) + Kept.hex(offset);
    }
  }

  /** A message that is kept, and its place in the store of its key. */
  record Message(String at, Entry entry, byte[] value) {}

  /** Messages by key and by time. */
  static final class Kept {
    private final KeyValueStore<String, byte[]> byKey; // key, 0, offset: times and value
    private final KeyValueStore<String, String> byTime; // time and offset: the place in byKey
    private long taken; // what is earlier was taken out, so a search need not pass it

    Kept(ProcessorContext<?, ?> context, String name) {
      byKey = context.getStateStore(name);
      byTime = context.getStateStore(name + "-times");
    }

    private static String hex(long v) {
      return HexFormat.of().toHexDigits(v);
    }

    void add(String key, byte[] value, Entry e) {
      String at = key + "\0" + hex(e.offset);
      byKey.put(at, ByteBuffer.allocate(16 + value.length).putLong(e.due).putLong(e.behind).put(value).array());
      byTime.put(e.place(), at);
    }

    void remove(Message m) {
      byKey.delete(m.at);
      byTime.delete(m.entry.place());
    }

    private static Message message(String at, byte[] kept) {
      ByteBuffer b = ByteBuffer.wrap(kept);
      Entry e = new Entry(b.getLong(), b.getLong(), HexFormat.fromHexDigitsToLong(at.substring(at.length() - 16)));
      byte[] value = new byte[b.remaining()];
      b.get(value);
      return new Message(at, e, value);
    }

    /** Returns what is kept of a key, in the order of the offsets. */
    List<Message> of(String key) {
      List<Message> found = new ArrayList<>();
      try (var all = byKey.prefixScan(key + "\0", new StringSerializer())) {
        all.forEachRemaining(kv -> found.add(message(kv.key, kv.value)));
      }
      return found;
    }

    /** Takes out what is earlier than a time, and gives it to a function with its key, the oldest first. */
    void takeBefore(long time, BiConsumer<String, Message> to) {
      if (time <= taken) {
        return;
      }
      List<String> places = new ArrayList<>();
      try (var all = byTime.range(hex(taken), hex(time))) { // shorter keys come first
        all.forEachRemaining(kv -> places.add(kv.value));
      }
      taken = time;
      for (String at : places) {
        Message m = message(at, byKey.get(at));
        remove(m);
        to.accept(at.substring(0, at.length() - 17), m);
      }
    }
  }
}
