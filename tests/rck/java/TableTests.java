import java.nio.file.Path;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The kit's table tests with what the kit itself has switched off and offers no property for: nested namespaces, names
 * with slashes, locations that are never used twice. Chosen locations lie in this process's temporary folder instead
 * of the machine's /tmp.
 */
public class TableTests extends RESTCompatibilityKitCatalogTests {
  private static final Namespace PARENT = Namespace.of("parent");

  @Override
  protected String baseTableLocation(TableIdentifier table) {
    Path folder = Path.of(System.getProperty("java.io.tmpdir"));
    return "file:" + folder.resolve(table.namespace().toString()).resolve(table.name());
  }

  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithSlashes() {
    return true;
  }

  /** The kit cleans up between tests, but knows of no nested namespaces. */
  @AfterEach
  void dropNestedNamespaces() {
    if (catalog().namespaceExists(PARENT)) {
      catalog().listNamespaces(PARENT).forEach(catalog()::dropNamespace);
      catalog().dropNamespace(PARENT);
    }
  }

  @Test
  @Override
  public void createTableInUniqueLocation() {
    super.createTableInUniqueLocation();
  }
}
