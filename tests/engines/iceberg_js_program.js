// Walk through the REST catalog with iceberg-js and print what it reports as JSON.
// Arguments: the module's file, the catalog's URI, the warehouse, a namespace of its own.
const [, , module_file, uri, warehouse, root] = process.argv;
const { IcebergRestCatalog } = require(module_file);

const SCHEMA = {
  type: "struct",
  "schema-id": 0,
  fields: [
    { id: 1, name: "id", type: "long", required: true },
    { id: 2, name: "price", type: "decimal(9,2)", required: false },
  ],
};

async function main() {
  const catalog = new IcebergRestCatalog({ baseUrl: uri, warehouse, auth: { type: "none" }, accessDelegation: ["vended-credentials"] });
  const odd = { namespace: [root, "a/b c+%.d"] };
  const seen = {};
  seen.config = Object.keys(await catalog.loadConfig()).includes("endpoints");
  await catalog.createNamespace({ namespace: [root] }, { properties: { owner: "js" } });
  await catalog.createNamespace(odd);
  seen.namespaces = (await catalog.listNamespaces({ parent: { namespace: [root] } })).namespaces;
  seen.updated = await catalog.updateNamespaceProperties({ namespace: [root] }, { updates: { a: "b" }, removals: ["owner"] });
  seen.properties = (await catalog.loadNamespaceMetadata({ namespace: [root] })).properties.a;
  await catalog.createTable(odd, { name: "t 1/2", schema: SCHEMA });
  const made = await catalog.loadTableResult({ ...odd, name: "t 1/2" });
  seen.vended = Object.keys(made.config ?? {}).some((key) => key === "s3.session-token");
  seen.unchanged = await catalog.loadTableResult({ ...odd, name: "t 1/2" }, { ifNoneMatch: made.etag });
  await catalog.commitTable(
    { ...odd, name: "t 1/2" },
    { requirements: [], updates: [{ action: "set-properties", updates: { colour: "red" } }] },
  );
  seen.committed = (await catalog.loadTable({ ...odd, name: "t 1/2" })).properties.colour;
  await catalog.renameTable({ source: { ...odd, name: "t 1/2" }, destination: { namespace: [root], name: "renamed" } });
  seen.renamed = [await catalog.tableExists({ ...odd, name: "t 1/2" }), await catalog.tableExists({ namespace: [root], name: "renamed" })];
  try {
    await catalog.createTable({ namespace: [root] }, { name: "renamed", schema: SCHEMA });
  } catch (error) {
    seen.conflict = [error.status, error.icebergType];
  }
  try {
    await catalog.loadTable({ namespace: [root], name: "missing" });
  } catch (error) {
    seen.missing = [error.status, error.icebergType, error.isNotFound()];
  }
  await catalog.dropTable({ namespace: [root], name: "renamed" }, { purge: true });
  await catalog.dropNamespace(odd);
  seen.tables = (await catalog.listTables({ namespace: [root] })).identifiers;
  seen.exists = await catalog.namespaceExists(odd);
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
