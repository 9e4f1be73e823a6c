import java.io.FileNotFoundException;
import java.net.URI;
import java.util.Arrays;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.fs.s3a.S3AFileSystem;

/** Hadoop's S3A as Flink bundles it, unchanged: java S3a.java ENDPOINT ACCESS_KEY SECRET_KEY BUCKET. */
class S3a {
    /** More than one page of a listing and one multi-delete. */
    private static final int MANY = 1100;

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.set("fs.s3a.endpoint", arguments[0]);
        settings.set("fs.s3a.access.key", arguments[1]);
        settings.set("fs.s3a.secret.key", arguments[2]);
        settings.set("fs.s3a.path.style.access", "true");
        settings.set("fs.s3a.connection.ssl.enabled", "false");
        settings.set("fs.s3a.multipart.size", "5M");
        settings.set("fs.s3a.fast.upload.buffer", "bytebuffer");
        settings.set("fs.s3a.attempts.maximum", "1");
        settings.set(
                "fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider");
        try (FileSystem store = new S3AFileSystem()) {
            store.initialize(new URI("s3a://" + arguments[3] + "/"), settings);
            checkpoint(store, new Path("/job/chk-1"));
            folders(store);
            check(store.listStatus(new Path("/")).length == 0, "nothing is left");
        }
    }

    private static void checkpoint(FileSystem store, Path folder) throws Exception {
        check(store.mkdirs(folder) && store.getFileStatus(folder).isDirectory(), "a folder");
        Path metadata = new Path(folder, "_metadata");
        write(store, metadata, "metadata".getBytes());
        check(store.getFileStatus(metadata).getLen() == 8, "a small file");
        fails(FileAlreadyExistsException.class, () -> store.create(metadata, false).close());
        fails(FileNotFoundException.class, () -> store.open(new Path(folder, "none")));

        byte[] state = new byte[13 * 1024 * 1024 + 7];
        new Random(7).nextBytes(state);
        Path large = new Path(folder, "state ü+&=?#%");
        write(store, large, state);
        try (FSDataInputStream in = store.open(large)) {
            byte[] whole = new byte[state.length];
            in.readFully(0, whole);
            check(Arrays.equals(whole, state), "a file in parts");
            byte[] range = new byte[1000];
            in.readFully(7_000_001, range);
            check(Arrays.equals(range, Arrays.copyOfRange(state, 7_000_001, 7_001_001)), "a range");
            in.seek(state.length - 3);
            check(in.read(new byte[10]) == 3 && in.read() == -1, "its end");
        }
        check(store.listStatus(folder).length == 2, "both are listed");
        Path moved = new Path("/job/moved");
        check(store.rename(large, moved) && !store.exists(large), "a move");
        check(store.getFileStatus(moved).getLen() == state.length, "all of it");
        check(store.delete(folder.getParent(), true), "the end of a job");
    }

    private static void folders(FileSystem store) throws Exception {
        for (int number = 0; number < MANY; number++) {
            store.create(new Path("/many/" + number), true).close();
        }
        int listed = 0;
        RemoteIterator<?> files = store.listFiles(new Path("/many"), true);
        for (; files.hasNext(); files.next()) {
            listed++;
        }
        check(listed == MANY, "pages of a listing");
        check(store.rename(new Path("/many"), new Path("/moved")), "a move of a folder");
        check(store.listStatus(new Path("/moved")).length == MANY, "all of it");
        check(store.delete(new Path("/moved"), true), "a delete of many");
    }

    private static void write(FileSystem store, Path path, byte[] content) throws Exception {
        try (FSDataOutputStream out = store.create(path, true)) {
            out.write(content);
        }
    }

    private interface Call {
        void call() throws Exception;
    }

    private static void fails(Class<? extends Exception> expected, Call call) throws Exception {
        try {
            call.call();
        } catch (Exception error) {
            check(expected.isInstance(error), expected + ", not " + error);
            return;
        }
        check(false, expected + " was expected");
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
