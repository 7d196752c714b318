package example.gatehouse.tokenclient;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContext;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslProvider;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.grpc.util.AdvancedTlsX509TrustManager;
import io.grpc.util.AdvancedTlsX509TrustManager.SslSocketAndEnginePeerVerifier;
import io.grpc.util.AdvancedTlsX509TrustManager.Verification;
import io.grpc.util.CertificateUtils;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLEngine;

/** Mutual TLS 1.3 by files that may change. The peer is known by the URI in its certificate, not by its host name. */
final class PeerTls {
  private static final System.Logger LOG = System.getLogger(PeerTls.class.getName());
  private static final Integer URI = 6;
  private static final Map<String, String> SIGNATURES =
      Map.of("EC", "SHA256withECDSA", "RSA", "SHA256withRSA", "EdDSA", "EdDSA", "Ed25519", "Ed25519");

  private final TlsFiles files;
  private final AdvancedTlsX509KeyManager identity = new AdvancedTlsX509KeyManager();
  private final AdvancedTlsX509TrustManager trust;

  /** @param peer such as {@code token-service} */
  PeerTls(TlsFiles files, String peer) throws IOException, GeneralSecurityException {
    this.files = files;
    trust =
        AdvancedTlsX509TrustManager.newBuilder()
            .setVerification(Verification.CERTIFICATE_ONLY_VERIFICATION)
            .setSslSocketAndEnginePeerVerifier(new PeerName("spiffe://gatehouse/" + peer))
            .build();
    read(); // a process must not start without its identity
  }

  SslContext context() throws IOException {
    SslContextBuilder builder =
        SslContextBuilder.forClient().keyManager(identity).trustManager(trust).protocols("TLSv1.3");
    return GrpcSslContexts.configure(builder, SslProvider.JDK).build();
  }

  /** New connections use what the files hold then. */
  void refresh() {
    try {
      read();
    } catch (IOException | GeneralSecurityException | RuntimeException error) {
      LOG.log(System.Logger.Level.ERROR, "certificate files cannot be used; the last good ones stay", error);
    }
  }

  private void read() throws IOException, GeneralSecurityException {
    X509Certificate[] chain = certificates(files.certFile());
    PrivateKey key;
    try (InputStream text = Files.newInputStream(files.keyFile())) {
      key = CertificateUtils.getPrivateKey(text);
    }
    assertMatch(chain[0], key);
    trust.updateTrustCredentials(certificates(files.caFile()));
    identity.updateIdentityCredentials(chain, key);
  }

  private static X509Certificate[] certificates(Path file) throws IOException, GeneralSecurityException {
    try (InputStream text = Files.newInputStream(file)) {
      X509Certificate[] found = CertificateUtils.getX509Certificates(text);
      if (found.length == 0) throw new CertificateException(file + " has no certificate");
      return found;
    }
  }

  /** They do not while the files are being replaced. */
  private static void assertMatch(X509Certificate certificate, PrivateKey key) throws GeneralSecurityException {
    String algorithm = SIGNATURES.get(key.getAlgorithm());
    if (algorithm == null) throw new GeneralSecurityException("unknown kind of key: " + key.getAlgorithm());
    byte[] text = {1};
    Signature signature = Signature.getInstance(algorithm);
    signature.initSign(key);
    signature.update(text);
    byte[] signed = signature.sign();
    signature.initVerify(certificate.getPublicKey());
    signature.update(text);
    if (!signature.verify(signed)) throw new GeneralSecurityException("the key is not that of the certificate");
  }

  private record PeerName(String uri) implements SslSocketAndEnginePeerVerifier {
    @Override
    public void verifyPeerCertificate(X509Certificate[] chain, String authType, Socket socket)
        throws CertificateException {
      check(chain[0]);
    }

    @Override
    public void verifyPeerCertificate(X509Certificate[] chain, String authType, SSLEngine engine)
        throws CertificateException {
      check(chain[0]);
    }

    private void check(X509Certificate certificate) throws CertificateException {
      Collection<List<?>> names = certificate.getSubjectAlternativeNames();
      if (names == null) throw new CertificateException("the peer has no name");
      List<?> uris = names.stream().filter(name -> URI.equals(name.get(0))).map(name -> name.get(1)).toList();
      if (!uris.equals(List.of(uri))) throw new CertificateException("the peer is " + uris);
    }
  }
}
