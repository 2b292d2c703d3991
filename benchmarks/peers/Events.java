import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

/** The events of a file of five columns, one after the other: time, id, type, key, x. */
public final class Events {
    /** An event, as a user of Flink would write it. */
    public static class Event {
        public long time;
        public long id;
        public int type;
        public int key;
        public double x;

        public Event() {}
    }

    private Events() {}

    /** Reads all of them. */
    public static Event[] read(String file) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(file))).order(ByteOrder.LITTLE_ENDIAN);
        int number = bytes.remaining() / 40;
        Event[] events = new Event[number];
        for (int i = 0; i < number; i++) {
            Event event = new Event();
            event.time = bytes.getLong(8 * i);
            event.id = bytes.getLong(8 * (number + i));
            event.type = (int) bytes.getLong(8 * (2 * number + i));
            event.key = (int) bytes.getLong(8 * (3 * number + i));
            event.x = bytes.getDouble(8 * (4 * number + i));
            events[i] = event;
        }
        return events;
    }

    /** Processor time of this process, in seconds. */
    public static double processorTime() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    /** Prints what was measured. */
    public static void report(int events, double seconds, long matches) {
        System.out.printf("{\"events\": %d, \"seconds\": %f, \"matches\": %d}%n", events, seconds, matches);
    }
}
