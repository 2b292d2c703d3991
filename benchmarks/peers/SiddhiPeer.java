import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicLong;

/** Runs an application of Siddhi over the events of a file: FILE APPLICATION. */
public final class SiddhiPeer {
    private static final int BATCH = 1_000;

    private SiddhiPeer() {}

    public static void main(String[] arguments) throws Exception {
        Events.Event[] events = Events.read(arguments[0]);
        String application = Files.readString(Path.of(arguments[1]));
        run(application, events, events.length / 5); // warms up
        double before = Events.processorTime();
        long matches = run(application, events, events.length);
        Events.report(events.length, Events.processorTime() - before, matches);
        System.exit(0);
    }

    private static long run(String application, Events.Event[] events, int number) throws Exception {
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(application);
        AtomicLong matches = new AtomicLong();
        runtime.addCallback("Found", new StreamCallback() {
            @Override
            public void receive(Event[] found) {
                matches.addAndGet(found.length);
            }
        });
        InputHandler input = runtime.getInputHandler("Events");
        runtime.start();
        for (int start = 0; start < number; start += BATCH) {
            Event[] batch = new Event[Math.min(BATCH, number - start)];
            for (int i = 0; i < batch.length; i++) {
                Events.Event one = events[start + i];
                batch[i] = new Event(one.time / 1000, new Object[] {one.id, one.type, one.key, one.x});
            }
            input.send(batch);
        }
        runtime.shutdown();
        manager.shutdown();
        return matches.get();
    }
}
