import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;
import org.apache.rocketmq.client.java.message.MessageViewImpl;

/**
 * A stock gRPC client of RocketMQ behind a proxy, in the roles the interop run needs.
 *
 * It decides nothing: it sends, receives, and writes down what the library told it, so that the run can
 * judge from files alone. Arguments are key=value pairs; times are ms of the wall clock.
 *
 *   mode=features endpoints=H:P normal=T fifo=T delay=T transaction=T messages=N out=FILE
 *     every kind of message, and eight consumers; until standard input is closed. Lines:
 *       ready                                                    every consumer has had a first message
 *       sent,feature,number,messageId,group,dueMs                acknowledged; no group or no time: -
 *       failed,feature,number,what                               a send that was refused or not answered
 *       got,consumer,number,messageId,attempt,popMs,visibleMs,intact,group,atMs
 *       did,number,what,visibleMs,outcome                        the simple consumer: ack or change; the new time
 *       asked,number,atMs                                        a question about a transaction
 *       recalled,number,what                                     OK or the failure
 *       end                                                      all is sent
 *   mode=produce endpoints=H:P topic=T rate=PER_SECOND ledger=FILE (count=N | untilInputEnds=true) [first=SEQUENCE]
 *     as InteropClient writes it, without places
 *   mode=follow endpoints=H:P topic=T popped=FILE pushed=FILE ready=FILE invisibleMs=MS
 *     a simple consumer, as PopClient writes it, and a push consumer (number,attempt,offset,atMs); until
 *     standard input is closed. ready: is made when both have had a message
 */
public final class GrpcClient {
    private static final int WARM = -1;
    private static final int BODY_BYTES = 300;
    private static final int FIFO_GROUPS = 6;
    private static final Duration INVISIBLE = Duration.ofSeconds(12);
    private static final Duration CHANGED = Duration.ofSeconds(20);
    private static final long WARM_PAUSE_MS = 400;
    private static final long RETRY_PAUSE_MS = 20;
    private static final int SEND_THREADS = 4;
    private static final int START_ATTEMPTS = 5;
    private static final long START_PAUSE_MS = 2_000;
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static ClientConfiguration configuration;
    private static BufferedWriter out;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) options.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
        configuration = ClientConfiguration.newBuilder().setEndpoints(options.get("endpoints")).build();
        try {
            switch (options.get("mode")) {
                case "features": features(options); break;
                case "produce": produce(options); break;
                case "follow": follow(options); break;
                default: throw new IllegalArgumentException("mode=features, mode=produce or mode=follow is needed");
            }
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    // -- what is sent ------------------------------------------------------------------------------

    /** The message of a number: whoever gets it can tell whether it is whole. */
    private static MessageBuilder message(String topic, int number) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body(number)).setKeys(Integer.toString(number))
            .setTag(tag(number)).addProperty("a", Integer.toString(number)).addProperty("b", number % 2 == 0 ? "x" : "y");
    }

    private static byte[] body(int number) {
        byte[] bytes = new byte[BODY_BYTES];
        new Random(number).nextBytes(bytes);
        return bytes;
    }

    private static String tag(int number) {
        return "T" + Math.floorMod(number, 3);
    }

    private static boolean isIntact(MessageView view, int number) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return Arrays.equals(bytes, body(number)) && view.getTag().orElse("").equals(tag(number))
            && Integer.toString(number).equals(view.getProperties().get("a"))
            && (number % 2 == 0 ? "x" : "y").equals(view.getProperties().get("b"));
    }

    private static int number(MessageView view) {
        return Integer.parseInt(view.getKeys().iterator().next());
    }

    /** When it was popped, when it may be seen again, and whether it is a retry: the broker's own words, out of the handle. */
    private static long[] times(MessageView view) {
        String[] handle = ((MessageViewImpl) view).getReceiptHandle().split(" ");
        long popped = Long.parseLong(handle[1]);
        return new long[] {popped, popped + Long.parseLong(handle[2]), handle[4].equals("0") ? 0 : 1};
    }

    // -- every kind of message ---------------------------------------------------------------------

    private static final Map<String, Set<String>> WARMED = new ConcurrentHashMap<>();

    private static boolean isWarm(String consumer, String group) {
        return WARMED.getOrDefault(consumer, Set.of()).contains(group);
    }

    private static void features(Map<String, String> options) throws Exception {
        out = writer(options.get("out"));
        String normal = options.get("normal"), fifo = options.get("fifo"), delay = options.get("delay"), ended = options.get("transaction");
        int messages = Integer.parseInt(options.get("messages"));
        List<PushConsumer> consumers = new ArrayList<>();
        consumers.add(push("all", normal, FilterExpression.SUB_ALL, true));
        consumers.add(push("sql", normal, new FilterExpression("a > 5 AND b = 'x'", FilterExpressionType.SQL92), true));
        consumers.add(push("tags", normal, new FilterExpression("T0 || T1", FilterExpressionType.TAG), true));
        consumers.add(push("dead", normal, new FilterExpression("a < 5", FilterExpressionType.SQL92), false));
        consumers.add(push("fifo", fifo, FilterExpression.SUB_ALL, true));
        consumers.add(push("delay", delay, FilterExpression.SUB_ALL, true));
        consumers.add(push("transaction", ended, FilterExpression.SUB_ALL, true));
        SimpleConsumer simple = simple("simple", normal);
        beside(() -> receipts(simple));
        Producer producer = started(() -> PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(normal, fifo, delay, ended).setTransactionChecker(view -> {
                write("asked," + number(view) + "," + System.currentTimeMillis());
                return isCommitted(number(view)) ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
            }).build());
        warm(producer, normal, fifo, delay, ended);
        write("ready");
        for (int i = 0; i < messages; i++) sent("normal", i, message(normal, i), producer);
        for (int i = 0; i < messages; i++) sent("fifo", i, message(fifo, i).setMessageGroup("g" + i % FIFO_GROUPS), producer);
        for (int i = 0; i < messages; i++) transacted(i, ended, producer);
        for (int i = 0; i < messages; i++) delayed(i, delay, producer);
        wrongKinds(messages, normal, fifo, delay, producer);
        write("end");
        inputEnds();
    }

    private static boolean isCommitted(int number) {
        return number < 0 || number % 4 == 0 || number % 4 == 2;
    }

    /** A new group begins at the newest message: each consumer gets one before what counts is sent. */
    private static void warm(Producer producer, String normal, String fifo, String delay, String ended) throws Exception {
        Map<String, Message> kinds = new HashMap<>();
        kinds.put("all", message(normal, WARM).build());
        kinds.put("tags", kinds.get("all"));
        kinds.put("simple", kinds.get("all"));
        kinds.put("dead", kinds.get("all"));
        Message even = PROVIDER.newMessageBuilder().setTopic(normal).setBody(body(WARM)).setKeys(Integer.toString(WARM))
            .setTag("T0").addProperty("a", "1000000").addProperty("b", "x").build();
        for (String one : List.of("all", "tags", "simple", "dead", "sql"))
            while (!isWarm(one, "-")) { warmed(producer, one.equals("sql") || one.equals("tags") ? even : kinds.get(one)); }
        for (int group = 0; group < FIFO_GROUPS; group++)
            while (!isWarm("fifo", "g" + group)) warmed(producer, message(fifo, WARM).setMessageGroup("g" + group).build());
        while (!isWarm("delay", "-")) warmed(producer, message(delay, WARM).setDeliveryTimestamp(System.currentTimeMillis() + 1000).build());
        while (!isWarm("transaction", "-")) {
            Transaction transaction = producer.beginTransaction();
            try { producer.send(message(ended, WARM).build(), transaction); transaction.commit(); } catch (ClientException e) { e.printStackTrace(); }
            Thread.sleep(WARM_PAUSE_MS);
        }
    }

    private static void warmed(Producer producer, Message message) throws InterruptedException {
        try { producer.send(message); } catch (ClientException e) { e.printStackTrace(); }
        Thread.sleep(WARM_PAUSE_MS);
    }

    private static SendReceipt sent(String feature, int number, MessageBuilder builder, Producer producer) {
        Message message = builder.build();
        try {
            SendReceipt receipt = producer.send(message);
            noteSent(feature, number, receipt, message);
            return receipt;
        } catch (Exception error) {
            write("failed," + feature + "," + number + "," + said(error));
            return null;
        }
    }

    private static void noteSent(String feature, int number, SendReceipt receipt, Message message) {
        write("sent," + feature + "," + number + "," + receipt.getMessageId() + "," + message.getMessageGroup().orElse("-")
            + "," + message.getDeliveryTimestamp().map(String::valueOf).orElse("-"));
    }

    /** One in four each: committed, rolled back, left open and committed or rolled back when asked. */
    private static void transacted(int number, String topic, Producer producer) throws Exception {
        Transaction transaction = producer.beginTransaction();
        Message message = message(topic, number).build();
        try {
            SendReceipt receipt = producer.send(message, transaction);
            if (number % 4 == 0) transaction.commit();
            if (number % 4 == 1) transaction.rollback();
            noteSent("transaction", number, receipt, message);
        } catch (ClientException error) {
            write("failed,transaction," + number + "," + said(error));
        }
    }

    /** One in five is taken back before its time. */
    private static void delayed(int number, String topic, Producer producer) {
        boolean back = number % 5 == 4;
        long due = System.currentTimeMillis() + (back ? 30_000 : 3_000 + number % 7 * 500);
        SendReceipt receipt = sent("delay", number, message(topic, number).setDeliveryTimestamp(due), producer);
        if (!back || receipt == null) return;
        try {
            producer.recallMessage(topic, receipt.getRecallHandle());
            write("recalled," + number + ",OK");
        } catch (Exception error) {
            write("recalled," + number + "," + said(error));
        }
    }

    /** A topic takes its own kind of message; the proxy reads the kind from the broker's topic. */
    private static void wrongKinds(int number, String normal, String fifo, String delay, Producer producer) {
        sent("normal-to-fifo", number, message(fifo, number), producer);
        sent("fifo-to-delay", number, message(delay, number).setMessageGroup("g"), producer);
        sent("delay-to-normal", number, message(normal, number).setDeliveryTimestamp(System.currentTimeMillis() + 5_000), producer);
        sent("nowhere", number, message("Nowhere", number), producer);
    }

    private static PushConsumer push(String name, String topic, FilterExpression filter, boolean succeeds) throws Exception {
        return started(() -> PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("grpc-" + name)
            .setSubscriptionExpressions(Map.of(topic, filter)).setMessageListener(view -> {
                got(name, view);
                return succeeds || number(view) < 0 ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
            }).build());
    }

    private static SimpleConsumer simple(String name, String topic) throws Exception {
        return started(() -> PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("grpc-" + name)
            .setAwaitDuration(Duration.ofSeconds(5)).setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build());
    }

    private static void got(String name, MessageView view) {
        int number = number(view);
        String group = view.getMessageGroup().orElse("-");
        WARMED.computeIfAbsent(name, one -> ConcurrentHashMap.newKeySet()).add(group);
        if (number < 0) return;
        long[] times = times(view);
        write("got," + name + "," + number + "," + view.getMessageId() + "," + view.getDeliveryAttempt() + "," + times[0] + "," + times[1]
            + "," + (isIntact(view, number) ? 1 : 0) + "," + group + "," + System.currentTimeMillis());
    }

    /** By number: acknowledged; left; its time changed and left; its time changed and acknowledged. */
    private static void receipts(SimpleConsumer consumer) throws Exception {
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        while (true) {
            List<MessageView> views;
            try { views = consumer.receive(16, INVISIBLE); } catch (ClientException e) { e.printStackTrace(); Thread.sleep(WARM_PAUSE_MS); continue; }
            for (MessageView view : views) {
                int number = number(view);
                got("simple", view);
                boolean first = number >= 0 && seen.add(number);
                if (first && number % 4 >= 2) did(number, "change", view, one -> { consumer.changeInvisibleDuration(one, CHANGED); return null; });
                if (!first || number % 4 == 0 || number % 4 == 3) did(number, "ack", view, one -> { consumer.ack(one); return null; });
            }
        }
    }

    private interface Act { Object on(MessageView view) throws Exception; }

    private static void did(int number, String what, MessageView view, Act act) {
        String outcome = "OK";
        try { act.on(view); } catch (Exception error) { outcome = said(error); }
        if (number >= 0) write("did," + number + "," + what + "," + times(view)[1] + "," + outcome);
    }

    // -- under faults ------------------------------------------------------------------------------

    private static void produce(Map<String, String> options) throws Exception {
        out = writer(options.get("ledger"));
        String topic = options.get("topic");
        int first = Integer.parseInt(options.getOrDefault("first", "0"));
        boolean open = Boolean.parseBoolean(options.get("untilInputEnds"));
        AtomicInteger end = new AtomicInteger(open ? Integer.MAX_VALUE : first + Integer.parseInt(options.get("count")));
        AtomicInteger next = new AtomicInteger(first);
        double perSecond = Double.parseDouble(options.get("rate"));
        // one attempt: every call that may have stored something is a line
        Producer producer = started(() -> PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
            .setMaxAttempts(1).build());
        long begun = System.nanoTime();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < SEND_THREADS; i++) threads.add(beside(() -> {
            for (int number = next.getAndIncrement(); number < end.get(); number = next.getAndIncrement()) {
                long pause = begun / 1_000_000 + (long) ((number - first) * 1000 / perSecond) - System.nanoTime() / 1_000_000;
                if (pause > 0) Thread.sleep(pause);
                if (number < end.get()) calls(producer, message(topic, number).build(), number);
            }
        }));
        if (open) { inputEnds(); end.set(first); }
        for (Thread one : threads) one.join();
        producer.close();
    }

    private static void calls(Producer producer, Message message, int number) throws Exception {
        for (int attempt = 0; ; attempt++) {
            long begun = System.currentTimeMillis();
            String outcome = "SEND_OK";
            try { producer.send(message); } catch (Exception error) { outcome = error.getClass().getSimpleName(); }
            write(number + "," + attempt + "," + begun + "," + System.currentTimeMillis() + "," + outcome + ",-1,-1");
            if (outcome.equals("SEND_OK")) return;
            Thread.sleep(RETRY_PAUSE_MS);
        }
    }

    private static void follow(Map<String, String> options) throws Exception {
        out = writer(options.get("popped"));
        BufferedWriter pushed = writer(options.get("pushed"));
        String topic = options.get("topic");
        PushConsumer reader = started(() -> PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup("grpc-pushed")
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).setMessageListener(view -> {
                WARMED.put("pushed", Set.of("-"));
                write(pushed, number(view) + "," + view.getDeliveryAttempt() + "," + ((MessageViewImpl) view).getOffset() + "," + System.currentTimeMillis());
                return ConsumeResult.SUCCESS;
            }).build());
        SimpleConsumer consumer = simple("popped", topic);
        beside(() -> popped(consumer, Duration.ofMillis(Long.parseLong(options.get("invisibleMs")))));
        Producer producer = started(() -> PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build());
        while (!isWarm("pushed", "-") || !isWarm("popped", "-")) warmed(producer, message(topic, WARM).build());
        Files.createFile(Path.of(options.get("ready")));
        inputEnds();
        reader.close();
    }

    private static void popped(SimpleConsumer consumer, Duration invisible) throws Exception {
        Set<Integer> seen = ConcurrentHashMap.newKeySet();
        while (true) {
            long begun = System.currentTimeMillis();
            List<MessageView> views;
            try { views = consumer.receive(16, invisible); } catch (ClientException e) {
                write("U," + begun + "," + System.currentTimeMillis());
                Thread.sleep(RETRY_PAUSE_MS);
                continue;
            }
            for (MessageView view : views) {
                int number = number(view);
                WARMED.put("popped", Set.of("-"));
                long[] times = times(view);
                write("G," + number + "," + times[2] + "," + times[0] + "," + times[1] + ",-1," + ((MessageViewImpl) view).getOffset());
                if (seen.add(number) && number % 3 == 0) continue;
                write("S," + number + "," + times[0]);
                consumer.ackAsync(view).thenRun(() -> write("A," + number + "," + times[0] + "," + System.currentTimeMillis()));
            }
        }
    }

    // -- lines and threads -------------------------------------------------------------------------

    private static String said(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return (error.getClass().getSimpleName() + " " + cause.getMessage()).replaceAll("[,\\s]+", " ");
    }

    private static BufferedWriter writer(String path) throws IOException {
        return Files.newBufferedWriter(Path.of(path), StandardCharsets.UTF_8);
    }

    private static void write(String line) { write(out, line); }

    private static void write(BufferedWriter file, String line) {
        synchronized (file) {
            try { file.write(line + "\n"); file.flush(); } catch (IOException error) { error.printStackTrace(); System.exit(1); }
        }
    }

    /** A client asks for its settings once and waits 3 s: a busy machine makes it wait longer. */
    private static <T> T started(Callable<T> build) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try { return build.call(); } catch (Exception error) {
                if (attempt == START_ATTEMPTS) throw error;
                System.out.println("not started: " + said(error));
                Thread.sleep(START_PAUSE_MS);
            }
        }
    }

    private interface Job { void run() throws Exception; }

    private static Thread beside(Job job) {
        Thread thread = new Thread(() -> {
            try { job.run(); } catch (Throwable error) { error.printStackTrace(); System.exit(1); }
        });
        thread.start();
        return thread;
    }

    private static void inputEnds() throws IOException {
        while (System.in.read() >= 0) { }
    }
}
