import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * The stock admin client, asked for what rocketmq-dashboard 2 and rocketmq-exporter ask for, page by page.
 *
 * It decides nothing: each answer goes out as the client's own classes read it, so that a field which is
 * missing or named otherwise shows. Arguments: namesrv=H:P topic=T group=G producer=G out=FILE. Lines:
 *
 *   question TAB answer as JSON
 *   question TAB ! failure
 *
 * With vip=true brokers are asked at their second port, as rocketmq-dashboard does unless told otherwise.
 */
public final class AdminClient {
    private static final long CALL_MS = 10_000;
    private static final int KEY = 7;
    private static BufferedWriter out;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) options.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
        DefaultMQAdminExt admin = new DefaultMQAdminExt(CALL_MS);
        admin.setInstanceName("asks");
        admin.setNamesrvAddr(options.get("namesrv"));
        admin.setVipChannelEnabled(Boolean.parseBoolean(options.getOrDefault("vip", "false")));
        admin.start();
        try (BufferedWriter lines = Files.newBufferedWriter(Path.of(options.get("out")), StandardCharsets.UTF_8)) {
            out = lines;
            ask(admin, options.get("topic"), options.get("group"), options.get("producer"));
        }
        admin.shutdown();
        System.exit(0);
    }

    private static void ask(DefaultMQAdminExt admin, String topic, String group, String producer) throws Exception {
        ClusterInfo clusters = asked("106 clusters", admin::examineBrokerClusterInfo);
        String cluster = clusters.getClusterAddrTable().keySet().iterator().next();
        BrokerData data = clusters.getBrokerAddrTable().values().iterator().next();
        String master = data.getBrokerAddrs().get(0L);
        List<String> members = new ArrayList<>(new TreeMap<>(data.getBrokerAddrs()).values());
        asked("206 topics", admin::fetchAllTopicList);
        asked("224 topics of the cluster", () -> admin.fetchTopicsByCLuster(cluster));
        asked("105 route", () -> admin.examineTopicRouteInfo(topic));
        asked("304 305 system topics", () -> admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl().getSystemTopicList(CALL_MS));
        for (int i = 0; i < members.size() && i < 2; i++) {
            String address = members.get(i);
            asked("28 runtime of " + (i == 0 ? "the master" : "a slave"), () -> admin.fetchBrokerRuntimeStats(address).getTable());
        }
        asked("26 settings", () -> admin.getBrokerConfig(master));
        asked("21 topics of a broker", () -> admin.getAllTopicConfig(master, CALL_MS));
        asked("351 topic", () -> admin.examineTopicConfig(master, topic));
        asked("202 351 places of a topic", () -> admin.examineTopicStats(topic));
        asked("300 groups of a topic", () -> admin.queryTopicConsumeByWho(topic));
        asked("201 groups", () -> admin.getAllSubscriptionGroup(master, CALL_MS));
        asked("352 group", () -> admin.examineSubscriptionGroupConfig(master, group));
        asked("208 progress", () -> admin.examineConsumeStats(group));
        asked("208 progress in a topic", () -> admin.examineConsumeStats(group, topic));
        asked("208 progress at a broker", () -> admin.examineConsumeStats(master, group, topic, CALL_MS));
        asked("317 progress of all groups", () -> admin.fetchConsumeStatsInBroker(master, false, CALL_MS));
        asked("303 times of a group", () -> admin.queryConsumeTimeSpan(topic, group));
        var connected = asked("203 consumers", () -> admin.examineConsumerConnectionInfo(group));
        asked("203 consumers at a broker", () -> admin.examineConsumerConnectionInfo(group, master));
        asked("204 producers", () -> admin.examineProducerConnectionInfo(producer, topic));
        asked("328 producers of a broker", () -> admin.getAllProducerInfo(master));
        String client = connected == null ? "" : connected.getConnectionSet().stream().map(Connection::getClientId).findFirst().orElse("");
        asked("307 running client", () -> admin.getConsumerRunningInfo(group, client, false));
        statistics(admin, master, cluster, topic, group);
        messages(admin, topic, group, client);
        changes(admin, master, cluster, group, topic);
        asked("203 nobody", () -> admin.examineConsumerConnectionInfo("nobody"));
        asked("208 nobody", () -> admin.examineConsumeStats("nobody"));
        asked("202 nowhere", () -> admin.examineTopicStats("nowhere"));
        asked("105 no dead letters", () -> admin.examineTopicRouteInfo("%DLQ%" + group));
    }

    private static void statistics(DefaultMQAdminExt admin, String master, String cluster, String topic, String group) throws Exception {
        for (String name : List.of("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")) asked("315 " + name, () -> admin.viewBrokerStatsData(master, name, topic));
        for (String name : List.of("GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS"))
            asked("315 " + name, () -> admin.viewBrokerStatsData(master, name, topic + "@" + group));
        for (String name : List.of("BROKER_PUT_NUMS", "BROKER_GET_NUMS")) asked("315 " + name, () -> admin.viewBrokerStatsData(master, name, cluster));
    }

    private static void messages(DefaultMQAdminExt admin, String topic, String group, String client) throws Exception {
        QueryResult found = asked("12 by key", () -> admin.queryMessage(topic, Integer.toString(KEY), 10, 0, Long.MAX_VALUE), AdminClient::told);
        if (found == null || found.getMessageList().isEmpty()) return;
        MessageExt message = found.getMessageList().get(0);
        String unique = message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
        asked("12 by unique id", () -> admin.queryMessage("regent", topic, unique), AdminClient::told);
        asked("300 203 208 track", () -> admin.messageTrackDetail(message));
        asked("309 consumed directly", () -> admin.consumeMessageDirectly(group, client, topic, unique));
    }

    /** Made, changed, read and removed again. */
    private static void changes(DefaultMQAdminExt admin, String master, String cluster, String group, String topic) throws Exception {
        TopicConfig made = new TopicConfig("Made", 3, 3, 6);
        made.setAttributes(new HashMap<>(Map.of("+message.type", "FIFO")));
        SubscriptionGroupConfig settings = new SubscriptionGroupConfig();
        settings.setGroupName("made");
        settings.setRetryMaxTimes(5);
        did("17 make a topic", () -> admin.createAndUpdateTopicConfig(master, made));
        asked("351 the topic that was made", () -> admin.examineTopicConfig(master, "Made"));
        did("200 make a group", () -> admin.createAndUpdateSubscriptionGroupConfig(master, settings));
        asked("352 the group that was made", () -> admin.examineSubscriptionGroupConfig(master, "made"));
        did("207 remove the group", () -> admin.deleteSubscriptionGroup(master, "made", true));
        did("215 remove the topic at a broker", () -> admin.deleteTopicInBroker(new HashSet<>(Set.of(master)), "Made"));
        did("216 remove the topic at the name server", () -> admin.deleteTopicInNameServer(new HashSet<>(admin.getNameServerAddressList()), "Made"));
        asked("222 another place", () -> admin.resetOffsetByTimestamp(topic, group, System.currentTimeMillis(), true));
    }

    /** What a page shows of messages. */
    private static Object told(QueryResult found) {
        List<Object> all = new ArrayList<>();
        for (MessageExt one : found.getMessageList()) all.add(told(one));
        return all;
    }

    private static Object told(MessageExt one) {
        Map<String, Object> fields = new TreeMap<>(Map.of("topic", one.getTopic(), "queueId", one.getQueueId(), "queueOffset", one.getQueueOffset(),
            "bodyLength", one.getBody().length, "bornTimestamp", one.getBornTimestamp(), "storeTimestamp", one.getStoreTimestamp(),
            "reconsumeTimes", one.getReconsumeTimes(), "properties", one.getProperties(), "storeHost", one.getStoreHost().toString()));
        fields.put("msgId", one.getMsgId());
        fields.put("sysFlag", one.getSysFlag());
        return fields;
    }

    private interface Act { void run() throws Exception; }

    private interface Shown<T> { Object of(T found); }

    private static void did(String name, Act act) throws Exception {
        asked(name, () -> { act.run(); return "done"; });
    }

    private static <T> T asked(String name, Callable<T> question) throws Exception {
        return asked(name, question, found -> found);
    }

    private static <T> T asked(String name, Callable<T> question, Shown<T> shown) throws Exception {
        try {
            T found = question.call();
            out.write(name + "\t" + RemotingSerializable.toJson(shown.of(found), false).replace("\t", " ").replace("\n", " ") + "\n");
            return found;
        } catch (Exception error) {
            out.write(name + "\t! " + error.toString().replaceAll("\\s+", " ") + "\n");
            return null;
        }
    }
}
