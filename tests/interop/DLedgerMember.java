import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.DLedgerServer;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.client.DLedgerClient;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.protocol.AppendEntryResponse;
import io.openmessaging.storage.dledger.protocol.GetEntriesResponse;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * A member of a DLedger group, or a client of one, driven by lines on standard input.
 *
 *   server GROUP PEERS SELF FOLDER NAME=VALUE...     DLedger's own server; settings by the names below
 *   client GROUP PEERS                               DLedger's own client
 *
 * Lines, each answered by one that begins with "ok" or "failed":
 *
 *   say                  (server) role, term, leader, begin, end, committed
 *   append BODY          (client) code, index, position; the body is base64, "-" for none
 *   get INDEX            (client) code, then index, term, body of the entry, if there is one
 *
 * The server ends with its input. Standard error has what DLedger logs.
 */
public class DLedgerMember {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        Answers answers = arguments[0].equals("server") ? server(arguments) : client(arguments);
        out.println("ok");
        out.flush();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + answers.to(line.split(" "));
            } catch (Throwable thrown) {
                answer = "failed " + thrown;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
        answers.end();
        System.exit(0);
    }

    private interface Answers {
        String to(String[] words) throws Exception;

        void end();
    }

    private static Answers server(String[] arguments) {
        DLedgerConfig config = new DLedgerConfig();
        config.group(arguments[1]).peers(arguments[2]).selfId(arguments[3]).storeBaseDir(arguments[4]);
        for (int at = 5; at < arguments.length; at++) {
            String[] setting = arguments[at].split("=");
            int value = Integer.parseInt(setting[1]);
            switch (setting[0]) {
                case "mappedFileSizeForEntryData":
                    config.setMappedFileSizeForEntryData(value);
                    break;
                case "mappedFileSizeForEntryIndex":
                    config.setMappedFileSizeForEntryIndex(value);
                    break;
                case "heartBeatTimeIntervalMs":
                    config.setHeartBeatTimeIntervalMs(value);
                    break;
                case "maxHeartBeatLeak":
                    config.setMaxHeartBeatLeak(value);
                    break;
                case "minVoteIntervalMs":
                    config.setMinVoteIntervalMs(value);
                    break;
                case "maxVoteIntervalMs":
                    config.setMaxVoteIntervalMs(value);
                    break;
                case "batch":
                    config.setEnableBatchPush(value != 0);
                    break;
                default:
                    throw new IllegalArgumentException(setting[0]);
            }
        }
        DLedgerServer server = new DLedgerServer(config);
        server.startup();
        return new Answers() {
            @Override
            public String to(String[] words) {
                MemberState state = server.getMemberState();
                return state.getRole() + " " + state.currTerm() + " " + state.getLeaderId() + " "
                    + server.getDLedgerStore().getLedgerBeginIndex() + " "
                    + server.getDLedgerStore().getLedgerEndIndex() + " "
                    + server.getDLedgerStore().getCommittedIndex();
            }

            @Override
            public void end() {
                server.shutdown();
            }
        };
    }

    private static Answers client(String[] arguments) {
        DLedgerClient client = new DLedgerClient(arguments[1], arguments[2]);
        client.startup();
        return new Answers() {
            @Override
            public String to(String[] words) {
                if (words[0].equals("append")) {
                    byte[] body = words[1].equals("-") ? new byte[0] : Base64.getDecoder().decode(words[1]);
                    AppendEntryResponse done = client.append(body);
                    return done.getCode() + " " + done.getIndex() + " " + done.getPos();
                }
                GetEntriesResponse found = client.get(Long.parseLong(words[1]));
                if (found.getEntries() == null || found.getEntries().isEmpty()) {
                    return String.valueOf(found.getCode());
                }
                DLedgerEntry entry = found.getEntries().get(0);
                String body = Base64.getEncoder().encodeToString(entry.getBody());
                return found.getCode() + " " + entry.getIndex() + " " + entry.getTerm() + " "
                    + (body.isEmpty() ? "-" : body);
            }

            @Override
            public void end() {
                client.shutdown();
            }
        };
    }
}
