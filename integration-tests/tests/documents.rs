//! What the documents promise, asked of a running server: which kinds are served, with which verbs, patches and
//! subresources. `REFRESH=1` writes the table of `docs/api-support.md` anew.

use anyhow::{Context, ensure};
use http::{Method, Request, StatusCode};
use kube::client::Body;
use listwatch_integration_tests::Server;
use serde_json::Value;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api-support.md");
const BEGIN: &str = "<!-- kinds and verbs: held by a test -->";
const END: &str = "<!-- end -->";
/// What most kinds can do.
const EVERY_VERB: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The forms of a patch, and how each is called in the table.
const PATCHES: [(&str, &str); 4] = [
    ("application/json-patch+json", "JSON"),
    ("application/merge-patch+json", "merge"),
    ("application/strategic-merge-patch+json", "strategic"),
    ("application/apply-patch+yaml", "apply"),
];

struct Asked {
    client: kube::Client,
}

impl Asked {
    async fn of(server: &Server) -> anyhow::Result<Asked> {
        let file = kube::config::Kubeconfig::read_from(server.data_dir().join("kubeconfig"))?;
        let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        Ok(Asked { client: kube::Client::try_from(config)? })
    }

    async fn discovery(&self, path: &str) -> anyhow::Result<Value> {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let request = Request::get(path).header("accept", accept).body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    /// Which patches of an object that does not exist fail for that reason, and not for their form.
    async fn patches(&self, path: &str) -> anyhow::Result<Vec<&'static str>> {
        let mut taken = Vec::new();
        for (form, name) in PATCHES {
            let body = if name == "JSON" { b"[]".to_vec() } else { b"{}".to_vec() };
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(path)
                .header("content-type", form)
                .body(Body::from(body))?;
            if self.client.send(request).await?.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
                taken.push(name);
            }
        }
        Ok(taken)
    }
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn verbs(list: &Value) -> String {
    let verbs = words(list);
    if verbs == EVERY_VERB { "all".to_owned() } else { verbs.join(", ") }
}

async fn rows(asked: &Asked, discovered: &Value) -> anyhow::Result<Vec<String>> {
    let mut rows = Vec::new();
    for group in discovered["items"].as_array().context("groups")? {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        for version in group["versions"].as_array().context("versions")? {
            let served = version["version"].as_str().context("a version")?;
            let (api, root) = if name.is_empty() {
                (served.to_owned(), format!("/api/{served}"))
            } else {
                (format!("{name}/{served}"), format!("/apis/{name}/{served}"))
            };
            for resource in version["resources"].as_array().context("resources")? {
                let plural = resource["resource"].as_str().context("a name")?;
                let namespaced = resource["scope"] == "Namespaced";
                let namespace = if namespaced { "/namespaces/default" } else { "" };
                let can_patch = words(&resource["verbs"]).contains(&"patch");
                let patches = if can_patch {
                    asked.patches(&format!("{root}{namespace}/{plural}/no-such-object")).await?
                } else {
                    Vec::new()
                };
                let subresources: Vec<String> = resource["subresources"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|sub| {
                        format!("{} ({})", sub["subresource"].as_str().unwrap_or_default(), verbs(&sub["verbs"]))
                    })
                    .collect();
                rows.push(format!(
                    "| {} | {api} | {} | {} | {} | {} |",
                    resource["responseKind"]["kind"].as_str().context("a kind")?,
                    if namespaced { "namespaced" } else { "cluster" },
                    verbs(&resource["verbs"]),
                    patches.join(", "),
                    subresources.join(", "),
                ));
            }
        }
    }
    Ok(rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_kinds_is_what_the_server_says() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let asked = Asked::of(&server).await?;
    let mut table =
        String::from("| Kind | Version | Scope | Verbs | Patches | Subresources |\n|---|---|---|---|---|---|\n");
    for path in ["/api", "/apis"] {
        for row in rows(&asked, &asked.discovery(path).await?).await? {
            table.push_str(&row);
            table.push('\n');
        }
    }
    let document = std::fs::read_to_string(DOCUMENT)?;
    let (before, rest) = document.split_once(BEGIN).context("the document has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the place for the table has no end")?;
    let wanted = format!("{before}{BEGIN}\n{table}{END}{after}");
    if std::env::var_os("REFRESH").is_some() {
        std::fs::write(DOCUMENT, &wanted)?;
        return Ok(());
    }
    ensure!(document == wanted, "docs/api-support.md tells another table (REFRESH=1): the server says\n{table}");
    Ok(())
}
