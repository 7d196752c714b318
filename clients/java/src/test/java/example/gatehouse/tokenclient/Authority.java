package example.gatehouse.tokenclient;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.stream.Stream;

/** A private authority, by the JDK's keytool. */
final class Authority {
  private static final String PASSWORD = "password";
  private static final Path KEYTOOL = Path.of(System.getProperty("java.home"), "bin", "keytool");

  private final Path folder;
  private final Path store;

  Authority(Path folder) throws Exception {
    this.folder = folder;
    store = folder.resolve("authority.p12");
    keytool(store, "-genkeypair", "-alias", "ca", "-dname", "CN=test authority", "-ext", "bc:c=ca:true", "-keyalg", "EC", "-groupname", "secp256r1");
    Files.writeString(folder.resolve("ca.crt"), pem("CERTIFICATE", keyStore(store).getCertificate("ca").getEncoded()));
  }

  TlsFiles issue(String service) throws Exception {
    return issue(service, service);
  }

  /** With the URI alone, as in production: no DNS name. */
  TlsFiles issue(String service, String file) throws Exception {
    Path own = folder.resolve(file + ".p12");
    Path request = folder.resolve(file + ".csr");
    TlsFiles files =
        new TlsFiles(folder.resolve(file + ".crt"), folder.resolve(file + ".key"), folder.resolve("ca.crt"));
    Files.deleteIfExists(own);
    keytool(own, "-genkeypair", "-alias", "leaf", "-dname", "CN=" + service, "-keyalg", "EC", "-groupname", "secp256r1");
    keytool(own, "-certreq", "-alias", "leaf", "-file", request.toString());
    String name = "san=uri:spiffe://gatehouse/" + service;
    keytool(store, "-gencert", "-alias", "ca", "-ext", name, "-rfc", "-infile", request.toString(), "-outfile", files.certFile().toString());
    byte[] key = keyStore(own).getKey("leaf", PASSWORD.toCharArray()).getEncoded();
    Files.writeString(files.keyFile(), pem("PRIVATE KEY", key));
    return files;
  }

  private static KeyStore keyStore(Path file) throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (InputStream bytes = Files.newInputStream(file)) {
      store.load(bytes, PASSWORD.toCharArray());
    }
    return store;
  }

  private static String pem(String kind, byte[] bytes) {
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
    return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n";
  }

  private static void keytool(Path store, String... arguments) throws IOException, InterruptedException {
    List<String> common = List.of("-keystore", store.toString(), "-storetype", "PKCS12", "-storepass", PASSWORD, "-noprompt");
    List<String> command =
        Stream.of(List.of(KEYTOOL.toString()), Arrays.asList(arguments), common).flatMap(List::stream).toList();
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes());
    if (process.waitFor() != 0) throw new IOException(said);
  }
}
