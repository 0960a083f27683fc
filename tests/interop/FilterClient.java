import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * A stock RocketMQ client that filters. It decides nothing and writes one line per fact to standard output. Arguments
 * are key=value pairs.
 *
 *   namesrv=H:P topic=T count=N name=TYPE:EXPRESSION ...
 *
 * TYPE is tags, sql (a push consumer each) or lite (a lite pull consumer with an SQL92 expression); `name` is its
 * group. Message i has the key i, the tag T(i % 3), a=i, b=x for even ones and y for others, and c=i only for those
 * that 5 divides. Half of them are there before the consumers are, the others are sent after a byte of standard input.
 *
 * waits             for that byte
 * sent KEY          acknowledged
 * started NAME      its consumer runs
 * refused NAME CODE TEXT   start() threw; line ends in TEXT are spaces here
 * received NAME KEY
 */
public final class FilterClient {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            int cut = argument.indexOf('=');
            options.put(argument.substring(0, cut), argument.substring(cut + 1));
        }
        String server = options.remove("namesrv");
        String topic = options.remove("topic");
        int count = Integer.parseInt(options.remove("count"));
        DefaultMQProducer producer = new DefaultMQProducer("filter-producer");
        producer.setNamesrvAddr(server);
        producer.setPollNameServerInterval(200);
        producer.start();
        send(producer, topic, 0, count / 2);
        for (Map.Entry<String, String> one : options.entrySet()) {
            int cut = one.getValue().indexOf(':');
            start(server, topic, one.getKey(), one.getValue().substring(0, cut), one.getValue().substring(cut + 1));
        }
        say("waits");
        System.in.read();
        send(producer, topic, count / 2, count);
        while (System.in.read() >= 0) {
            // Whoever judges closes standard input when it has seen enough.
        }
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String topic, int first, int end) throws Exception {
        for (int i = first; i < end; i++) {
            Message message = new Message(topic, "T" + i % 3, Integer.toString(i), new byte[100]);
            message.putUserProperty("a", Integer.toString(i));
            message.putUserProperty("b", i % 2 == 0 ? "x" : "y");
            if (i % 5 == 0) {
                message.putUserProperty("c", Integer.toString(i));
            }
            while (!stored(producer, message)) {
                Thread.sleep(100); // its master was killed: the run ends this program when that takes too long
            }
            say("sent " + i);
        }
    }

    private static boolean stored(DefaultMQProducer producer, Message message) throws InterruptedException {
        try {
            return producer.send(message).getSendStatus() == SendStatus.SEND_OK;
        } catch (MQClientException | MQBrokerException | RemotingException failure) {
            return false;
        }
    }

    private static void start(String server, String topic, String name, String type, String text) throws Exception {
        try {
            if (type.equals("lite")) {
                lite(server, topic, name, text);
            } else {
                push(server, topic, name, type.equals("sql") ? MessageSelector.bySql(text) : MessageSelector.byTag(text));
            }
            say("started " + name);
        } catch (MQClientException refused) {
            say("refused " + name + " " + refused.getResponseCode() + " " + refused.getMessage().replaceAll("\\s+", " "));
        }
    }

    private static void push(String server, String topic, String name, MessageSelector selector) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(server);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, selector);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received(name, messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private static void lite(String server, String topic, String name, String text) throws MQClientException {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(name);
        consumer.setNamesrvAddr(server);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, MessageSelector.bySql(text));
        consumer.start();
        Thread reader = new Thread(() -> {
            while (true) {
                received(name, consumer.poll(1000));
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    private static void received(String name, List<MessageExt> messages) {
        for (MessageExt message : messages) {
            say("received " + name + " " + message.getKeys());
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
