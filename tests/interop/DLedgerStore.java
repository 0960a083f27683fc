import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.store.file.DLedgerMmapFileStore;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Store folders in the hands of DLedger's own classes, driven by lines on standard input.
 *
 * Arguments: member id, bytes of a data file, of an index file. It does line after line, each answered by one
 * that begins with "ok" or "failed":
 *
 *   open FOLDER                        says what it found
 *   lead TERM                          leader of that term, which is written down with its vote
 *   follow TERM LEADER                 follower
 *   append BODY                        as leader (base64, "-" for none): index and position
 *   take ENTRY, truncate ENTRY         as follower: INDEX TERM POSITION CHANNEL CHAIN BODYCRC BODY
 *   commit INDEX
 *   say                                begin, end, its term, committed index, term, vote
 *   entry INDEX                        as above, with its magic in front
 *   shutdown                           the orderly end of a folder
 *   abandon                            leaves a folder as a killed process does: nothing more is written
 *   halt                               ends the process at once
 *
 * Standard error has what DLedger logs.
 */
public class DLedgerStore {
    private static String[] configured;
    private static MemberState state;
    private static DLedgerMmapFileStore store;

    public static void main(String[] arguments) throws Exception {
        configured = arguments;
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + done(line.split(" "));
            } catch (Throwable thrown) {
                answer = "failed " + thrown;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
        System.exit(0);
    }

    private static String opened(String folder) {
        DLedgerConfig config = new DLedgerConfig();
        config.setStoreBaseDir(folder);
        config.group("g").selfId(configured[0]).peers(configured[0] + "-localhost:1;other-localhost:2");
        config.setMappedFileSizeForEntryData(Integer.parseInt(configured[1]));
        config.setMappedFileSizeForEntryIndex(Integer.parseInt(configured[2]));
        config.setEnableLeaderElector(false);
        state = new MemberState(config);
        store = new DLedgerMmapFileStore(config, state);
        store.setEnableCleanSpaceService(false);
        store.startup();
        return said();
    }

    private static String said() {
        return store.getLedgerBeginIndex() + " " + store.getLedgerEndIndex() + " " + store.getLedgerEndTerm() + " "
            + store.getCommittedIndex() + " " + state.currTerm() + " " + state.currVoteFor();
    }

    private static String done(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return opened(words[1]);
            case "lead":
                toTerm(Long.parseLong(words[1]));
                state.setCurrVoteFor(state.getSelfId());
                state.changeToLeader(state.currTerm());
                return said();
            case "follow":
                toTerm(Long.parseLong(words[1]));
                state.changeToFollower(state.currTerm(), words[2]);
                return said();
            case "append": {
                DLedgerEntry entry = new DLedgerEntry();
                entry.setBody(body(words[1]));
                DLedgerEntry appended = store.appendAsLeader(entry);
                return appended.getIndex() + " " + appended.getPos();
            }
            case "take":
                return shown(store.appendAsFollower(entry(words), state.currTerm(), state.getLeaderId()));
            case "truncate":
                return String.valueOf(store.truncate(entry(words), state.currTerm(), state.getLeaderId()));
            case "commit":
                store.updateCommittedIndex(state.currTerm(), Long.parseLong(words[1]));
                return said();
            case "say":
                return said();
            case "entry":
                return shown(store.get(Long.parseLong(words[1])));
            case "abandon":
                store.shutdownFlushService();
                return "";
            case "shutdown":
                store.shutdown();
                return "";
            case "halt":
                Runtime.getRuntime().halt(9);
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Terms are raised by candidates, as in an election; that writes them down. */
    private static void toTerm(long term) {
        state.changeToCandidate(term);
        if (state.currTerm() < term) {
            state.nextTerm();
        }
    }

    private static byte[] body(String word) {
        return word.equals("-") ? new byte[0] : Base64.getDecoder().decode(word);
    }

    private static DLedgerEntry entry(String[] words) {
        DLedgerEntry entry = new DLedgerEntry();
        entry.setMagic(1);
        entry.setIndex(Long.parseLong(words[1]));
        entry.setTerm(Long.parseLong(words[2]));
        entry.setPos(Long.parseLong(words[3]));
        entry.setChannel(Integer.parseInt(words[4]));
        entry.setChainCrc(Integer.parseInt(words[5]));
        entry.setBodyCrc(Integer.parseInt(words[6]));
        entry.setBody(body(words[7]));
        entry.computeSizeInBytes();
        return entry;
    }

    private static String shown(DLedgerEntry entry) {
        String body = Base64.getEncoder().encodeToString(entry.getBody());
        return entry.getMagic() + " " + entry.getIndex() + " " + entry.getTerm() + " " + entry.getPos() + " "
            + entry.getChannel() + " " + entry.getChainCrc() + " " + entry.getBodyCrc() + " "
            + (body.isEmpty() ? "-" : body);
    }
}
