package example.gatehouse.tokenclient;

import java.nio.file.Path;

/** PEM files: this service's certificate and key (PKCS #8), and the private CA that signs those of both ends. */
public record TlsFiles(Path certFile, Path keyFile, Path caFile) {}
