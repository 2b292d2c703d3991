import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Runs a pattern of Flink CEP over the events of a file: FILE WORKLOAD SECONDS [PATTERNS]. */
public final class FlinkPeer {
    private static final AtomicLong MATCHES = new AtomicLong();
    private static Events.Event[] events;

    private FlinkPeer() {}

    public static void main(String[] arguments) throws Exception {
        events = Events.read(arguments[0]);
        run(arguments, events.length / 5); // warms up
        MATCHES.set(0);
        double before = Events.processorTime();
        run(arguments, events.length);
        Events.report(events.length, Events.processorTime() - before, MATCHES.get());
        System.exit(0);
    }

    private static void run(String[] arguments, int number) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.getConfig().enableObjectReuse();
        DataStream<Events.Event> stream = environment
                .fromSequence(0, number - 1)
                .map(index -> events[index.intValue()])
                .returns(Events.Event.class)
                .assignTimestampsAndWatermarks(WatermarkStrategy.<Events.Event>forMonotonousTimestamps()
                        .withTimestampAssigner((event, before) -> event.time / 1000));
        String workload = arguments[1];
        Duration window = Duration.ofMillis(Math.round(1000 * Double.parseDouble(arguments[2])));
        int patterns = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 1;
        if (workload.endsWith("by key")) {
            stream = stream.keyBy(event -> event.key);
        }
        for (int i = 0; i < patterns; i++) {
            CEP.pattern(stream, pattern(workload, i, patterns).within(window))
                    .process(new Count())
                    .sinkTo(new DiscardingSink<>());
        }
        environment.execute();
    }

    private static Pattern<Events.Event, ?> pattern(String workload, int number, int of) {
        Pattern<Events.Event, Events.Event> first = Pattern.<Events.Event>begin("a").where(type(0));
        return switch (workload) {
            case "sequence", "sequence by key" ->
                first.followedBy("b").where(type(1)).followedBy("c").where(type(2));
            case "not in between by key" ->
                first.notFollowedBy("n").where(type(2)).followedBy("b").where(type(1));
            case "within a distance" -> first.followedBy("b").where(type(1)).where(
                    across((a, b) -> Math.abs(b.x - a.x) < 0.01));
            case "higher" -> first.followedBy("b").where(type(1)).where(across((a, b) -> b.x > a.x + 99.0));
            case "equal" -> first.followedBy("b").where(type(1)).where(across((a, b) -> b.key == a.key));
            case "thresholds" -> {
                double threshold = 90.0 + 10.0 * number / of;
                yield Pattern.<Events.Event>begin("a")
                        .where(SimpleCondition.of(event -> event.type == 0 && event.x > threshold))
                        .followedBy("b").where(type(1));
            }
            default -> throw new IllegalArgumentException(workload);
        };
    }

    private static SimpleCondition<Events.Event> type(int wanted) {
        return SimpleCondition.of(event -> event.type == wanted);
    }

    private static IterativeCondition<Events.Event> across(Holds holds) {
        return new IterativeCondition<>() {
            @Override
            public boolean filter(Events.Event event, Context<Events.Event> context) throws Exception {
                for (Events.Event before : context.getEventsForPattern("a")) {
                    return holds.test(before, event);
                }
                return false;
            }
        };
    }

    /** A condition on two events. */
    private interface Holds extends java.io.Serializable {
        boolean test(Events.Event a, Events.Event b);
    }

    /** Counts matches. */
    private static final class Count extends PatternProcessFunction<Events.Event, Long> {
        @Override
        public void processMatch(Map<String, List<Events.Event>> match, Context context, Collector<Long> out) {
            MATCHES.incrementAndGet();
            out.collect(match.get("a").get(0).id);
        }
    }
}
