package example.gatehouse.tokenclient;

import jakarta.servlet.ServletContext;
import jakarta.servlet.ServletException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.startup.Tomcat;

/** Tomcat on a free port of 127.0.0.1. */
final class TomcatServer implements AutoCloseable {
  private static final Logger TOMCAT_LOG = Logger.getLogger("org.apache");

  /** Adds filters and servlets. */
  interface Deployment {
    void deploy(ServletContext context) throws ServletException;
  }

  private final Tomcat tomcat = new Tomcat();

  TomcatServer(Deployment deployment) throws IOException, LifecycleException {
    TOMCAT_LOG.setLevel(Level.SEVERE);
    Path folder = Files.createTempDirectory("tomcat");
    folder.toFile().deleteOnExit();
    tomcat.setBaseDir(folder.toString());
    tomcat.setPort(0);
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    Context context = tomcat.addContext("", folder.toString());
    context.addServletContainerInitializer((classes, servletContext) -> deployment.deploy(servletContext), Set.of());
    tomcat.start();
  }

  String url() {
    return "http://127.0.0.1:" + tomcat.getConnector().getLocalPort();
  }

  @Override
  public void close() throws LifecycleException {
    tomcat.stop();
    tomcat.destroy();
  }
}
