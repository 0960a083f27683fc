import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.PullAPIWrapper;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A stock RocketMQ client in the roles the interop run needs.
 *
 * It decides nothing: it sends, receives, and writes down what the library told it, one line per
 * fact, so that the run (run.py) can judge from files alone. Arguments are key=value pairs.
 *
 *   mode=produce namesrv=H:P topic=T (count=N | untilInputEnds=true) rate=PER_SECOND ledger=FILE
 *                [threads=K] [pollMs=] [timeoutMs=] [body=BYTES] [first=SEQUENCE] [batch=MESSAGES] [delayLevel=N] [delayMs=MS]
 *   mode=transact, as mode=produce, one message at a time and asked=FILE
 *   mode=consume namesrv=H:P topic=T group=G received=FILE [pollMs=]
 *   mode=pull    namesrv=H:P topic=T group=G brokerId=N received=FILE refused=FILE
 *   mode=query   namesrv=H:P topic=T keys=K,K,... found=FILE
 *
 * Ledger line:   sequence,attempt,startMs,endMs,outcome,queueId,queueOffset
 *                outcome = SEND_OK or the failure's class; the place is -1,-1 when nothing was answered
 * Received line: sequence,queueId,queueOffset,atMs, as an orderly listener gets them: each queue in turn
 *                and, from mode=pull, as pulls of the replica with that id gave them
 * Asked line:    sequence,timesAsked,halfOffset,atMs of each question about a transaction
 * Refused line:  startMs,endMs,queueId,what: one pull that the client has no messages and no next offset from
 * Found line:    key,queueId,queueOffset of each message that a query by that key gave
 */
public final class InteropClient {
    private static final long GIVE_UP_AFTER_MS = 120_000;
    private static final long RETRY_PAUSE_MS = 10;
    private static final int START_ATTEMPTS = 3;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            int cut = arg.indexOf('=');
            if (cut < 1) {
                System.err.println("not key=value: " + arg);
                System.exit(2);
            }
            options.put(arg.substring(0, cut), arg.substring(cut + 1));
        }
        switch (options.getOrDefault("mode", "")) {
            case "produce": produce(options, new DefaultMQProducer("interop-producer")); break;
            case "transact": produce(options, transacting(options)); break;
            case "consume": consume(options); break;
            case "pull": pull(options); break;
            case "query": query(options); break;
            default:
                System.err.println("mode=produce, mode=transact, mode=consume, mode=pull or mode=query is needed");
                System.exit(2);
        }
    }

    private static void produce(Map<String, String> options, DefaultMQProducer producer) throws Exception {
        producer.setNamesrvAddr(options.get("namesrv"));
        if (options.containsKey("pollMs")) {
            producer.setPollNameServerInterval(Integer.parseInt(options.get("pollMs")));
        }
        if (options.containsKey("timeoutMs")) {
            producer.setSendMsgTimeout(Integer.parseInt(options.get("timeoutMs")));
        }
        boolean untilInputEnds = Boolean.parseBoolean(options.get("untilInputEnds"));
        int first = Integer.parseInt(options.getOrDefault("first", "0"));
        int batch = Integer.parseInt(options.getOrDefault("batch", "1"));
        int delayLevel = Integer.parseInt(options.getOrDefault("delayLevel", "0"));
        long delayMs = Long.parseLong(options.getOrDefault("delayMs", "0"));
        AtomicInteger end = new AtomicInteger(untilInputEnds ? Integer.MAX_VALUE : first + Integer.parseInt(options.get("count")));
        int threads = Integer.parseInt(options.getOrDefault("threads", "4"));
        double perSecond = Double.parseDouble(options.getOrDefault("rate", "800"));
        byte[] body = new byte[Integer.parseInt(options.getOrDefault("body", "1024"))];
        new Random(1).nextBytes(body); // else the client's compression would make little of a large one
        System.out.println("settings client=rocketmq-client-5.3.3 pollNameServerInterval=" + producer.getPollNameServerInterval()
            + " sendMsgTimeout=" + producer.getSendMsgTimeout()
            + " retryTimesWhenSendFailed=" + producer.getRetryTimesWhenSendFailed()
            + " sendLatencyFaultEnable=" + producer.isSendLatencyFaultEnable() + " threads=" + threads + " rate=" + perSecond);
        producer.start();
        boolean stays = producer instanceof TransactionMQProducer; // somebody has to answer questions
        AtomicInteger next = new AtomicInteger(first);
        AtomicInteger given = new AtomicInteger();
        long begun = System.nanoTime();
        try (BufferedWriter ledger = writer(options.get("ledger"))) {
            List<Thread> workers = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                Thread worker = new Thread(() -> {
                    int sequence;
                    while ((sequence = next.getAndAdd(batch)) < end.get()) {
                        pace(begun, sequence - first, perSecond);
                        List<Message> messages = new ArrayList<>();
                        for (int key = sequence; key < sequence + batch; key++) {
                            Message message = new Message(options.get("topic"), "interop", Integer.toString(key), body);
                            if (delayLevel > 0) {
                                message.setDelayTimeLevel(delayLevel);
                            } else if (delayMs > 0) {
                                message.setDelayTimeMs(delayMs);
                            }
                            messages.add(message);
                        }
                        if (!sendUntilStored(producer, messages, sequence, ledger)) {
                            given.incrementAndGet();
                        }
                    }
                });
                worker.start();
                workers.add(worker);
            }
            if (untilInputEnds) {
                while (System.in.read() >= 0) {
                    // The run closes standard input when it has seen enough.
                }
                end.set(0);
            }
            for (Thread worker : workers) {
                worker.join();
            }
            while (stays && !untilInputEnds && System.in.read() >= 0) {
                // The run closes standard input when everything came.
            }
        }
        System.out.println("done next=" + next.get() + " givenUp=" + given.get());
        producer.shutdown();
        System.exit(given.get() == 0 ? 0 : 1);
    }

    /** Of three messages one is committed, one rolled back, and one left to the question, which commits every second of these. */
    private static TransactionMQProducer transacting(Map<String, String> options) throws IOException {
        BufferedWriter asked = writer(options.get("asked"));
        TransactionMQProducer producer = new TransactionMQProducer("interop-transactions");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                switch (Integer.parseInt(message.getKeys()) % 3) {
                    case 0: return LocalTransactionState.COMMIT_MESSAGE;
                    case 1: return LocalTransactionState.ROLLBACK_MESSAGE;
                    default: return LocalTransactionState.UNKNOW;
                }
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int sequence = Integer.parseInt(message.getKeys());
                write(asked, sequence + "," + message.getUserProperty("TRANSACTION_CHECK_TIMES") + "," + message.getQueueOffset() + ","
                    + System.currentTimeMillis());
                boolean commit = sequence % 3 == 0 || sequence % 3 == 2 && sequence / 3 % 2 == 0;
                return commit ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        return producer;
    }

    private static void pace(long begun, int sequence, double perSecond) {
        long due = begun + (long) (sequence * 1e9 / perSecond);
        long wait = due - System.nanoTime();
        if (wait > 0) {
            try {
                Thread.sleep(wait / 1_000_000, (int) (wait % 1_000_000));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static boolean sendUntilStored(DefaultMQProducer producer, List<Message> messages, int sequence, BufferedWriter ledger) {
        long giveUpAt = System.currentTimeMillis() + GIVE_UP_AFTER_MS;
        for (int attempt = 1; System.currentTimeMillis() < giveUpAt; attempt++) {
            long start = System.currentTimeMillis();
            String outcome;
            int queue = -1;
            long offset = -1;
            try {
                SendResult result = producer instanceof TransactionMQProducer ? producer.sendMessageInTransaction(messages.get(0), null)
                    : messages.size() == 1 ? producer.send(messages.get(0)) : producer.send(messages);
                outcome = result.getSendStatus() == SendStatus.SEND_OK ? "SEND_OK" : result.getSendStatus().name();
                queue = result.getMessageQueue().getQueueId();
                offset = result.getQueueOffset();
            } catch (Exception failure) {
                outcome = failure.getClass().getSimpleName();
            }
            for (int i = 0; i < messages.size(); i++) {
                write(ledger, (sequence + i) + "," + attempt + "," + start + "," + System.currentTimeMillis() + "," + outcome
                    + "," + queue + "," + (offset < 0 ? -1 : offset + i));
            }
            if (outcome.equals("SEND_OK")) {
                return true;
            }
            try {
                Thread.sleep(RETRY_PAUSE_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return false;
    }

    private static void consume(Map<String, String> options) throws Exception {
        BufferedWriter received = writer(options.get("received"));
        AtomicLong total = new AtomicLong();
        DefaultMQPushConsumer consumer = null;
        for (int attempt = 1; consumer == null; attempt++) {
            DefaultMQPushConsumer tried = consumer(options, received, total);
            try {
                tried.start();
                consumer = tried;
            } catch (IllegalStateException | MQClientException failure) {
                // The first question to the name server failed, as it may on a busy machine: such a consumer cannot be started again.
                System.out.println("start failed, attempt " + attempt + ": " + failure);
                tried.shutdown(); // it runs in part, and would hold queues of the group
                if (attempt == START_ATTEMPTS) {
                    throw failure;
                }
            }
        }
        System.out.println("settings client=rocketmq-client-5.3.3 pollNameServerInterval=" + consumer.getPollNameServerInterval()
            + " pullBatchSize=" + consumer.getPullBatchSize());
        while (System.in.read() >= 0) {
            // The run closes standard input when everything acknowledged has been seen, or gives up.
        }
        consumer.shutdown();
        System.out.println("done received=" + total.get());
        System.exit(0);
    }

    private static DefaultMQPushConsumer consumer(Map<String, String> options, BufferedWriter received, AtomicLong total) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.getOrDefault("group", "interop-consumer"));
        consumer.setNamesrvAddr(options.get("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.containsKey("pollMs")) {
            consumer.setPollNameServerInterval(Integer.parseInt(options.get("pollMs")));
        }
        consumer.subscribe(options.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                write(received, message.getKeys() + "," + message.getQueueId() + "," + message.getQueueOffset() + "," + System.currentTimeMillis());
                total.incrementAndGet();
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        return consumer;
    }

    /** Reads from one replica, whichever role it has: what readers from slaves do. */
    private static void pull(Map<String, String> options) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(options.get("group"));
        consumer.setNamesrvAddr(options.get("namesrv"));
        consumer.start();
        PullAPIWrapper from = consumer.getDefaultMQPullConsumerImpl().getPullAPIWrapper();
        from.setConnectBrokerByUser(true);
        from.setDefaultBrokerId(Long.parseLong(options.get("brokerId")));
        System.out.println("settings client=rocketmq-client-5.3.3 pollNameServerInterval=" + consumer.getPollNameServerInterval()
            + " brokerSuspendMaxTimeMillis=" + consumer.getBrokerSuspendMaxTimeMillis() + " brokerId=" + options.get("brokerId"));
        AtomicBoolean over = new AtomicBoolean();
        List<Thread> readers = new ArrayList<>();
        try (BufferedWriter received = writer(options.get("received")); BufferedWriter refused = writer(options.get("refused"))) {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(options.get("topic"))) {
                Thread reader = new Thread(() -> read(consumer, queue, received, refused, over));
                reader.start();
                readers.add(reader);
            }
            while (System.in.read() >= 0) {
                // The run closes standard input when it has seen enough.
            }
            over.set(true);
            for (Thread reader : readers) {
                reader.interrupt();
                reader.join();
            }
        }
        consumer.shutdown();
        System.exit(0);
    }

    private static void read(DefaultMQPullConsumer consumer, MessageQueue queue, BufferedWriter received, BufferedWriter refused, AtomicBoolean over) {
        long offset = 0;
        while (!over.get()) {
            long start = System.currentTimeMillis();
            String what = null;
            try {
                PullResult result = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
                long now = System.currentTimeMillis();
                if (result.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        write(received, message.getKeys() + "," + message.getQueueId() + "," + message.getQueueOffset() + "," + now);
                    }
                } else if (result.getPullStatus() == PullStatus.OFFSET_ILLEGAL) {
                    what = "OFFSET_ILLEGAL";
                }
                offset = result.getNextBeginOffset();
            } catch (MQBrokerException failure) {
                what = "code" + failure.getResponseCode();
            } catch (Exception failure) {
                what = failure.getClass().getSimpleName();
            }
            if (what != null && !over.get()) {
                write(refused, start + "," + System.currentTimeMillis() + "," + queue.getQueueId() + "," + what);
                try {
                    Thread.sleep(RETRY_PAUSE_MS);
                } catch (InterruptedException end) {
                    return;
                }
            }
        }
    }

    private static BufferedWriter writer(String file) throws IOException {
        return Files.newBufferedWriter(Path.of(file), StandardCharsets.UTF_8, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING);
    }

    private static void query(Map<String, String> options) throws Exception {
        DefaultMQProducer asker = new DefaultMQProducer("interop-asker");
        asker.setNamesrvAddr(options.get("namesrv"));
        asker.start();
        try (BufferedWriter found = writer(options.get("found"))) {
            for (String key : options.get("keys").split(",")) {
                try {
                    for (MessageExt message : asker.queryMessage(options.get("topic"), key, 32, 0, System.currentTimeMillis()).getMessageList()) {
                        write(found, message.getKeys() + "," + message.getQueueId() + "," + message.getQueueOffset());
                    }
                } catch (MQClientException nothing) {
                    System.out.println("key " + key + ": " + nothing.getErrorMessage());
                }
            }
        }
        asker.shutdown();
        System.exit(0);
    }

    private static void write(BufferedWriter out, String line) {
        synchronized (out) {
            try {
                out.write(line);
                out.write('\n');
                out.flush();
            } catch (IOException failure) {
                System.err.println("cannot write: " + failure);
                System.exit(1);
            }
        }
    }
}
