//! Deployments as a user sees them: steps and words, pause, history, deadline.

use integration_tests::eventually;
use listwatch_components::client::{Api, Cached, Client, Patch};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::kubelets::Kubelets;
use crate::plane::{LIMIT, Plane, deployment, kind, list, make_node, settled, web};

/// What a set or a deployment says of its number.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A cluster with the deployment `web`.
struct Shop {
    _plane: Plane,
    client: Client,
    kubelets: Kubelets,
    deployments: Api<Object>,
}

impl Shop {
    /// Opens with so many pods of `web:1`, all running.
    async fn open(replicas: i64, change: impl FnOnce(&mut Object)) -> anyhow::Result<Self> {
        let plane = Plane::start()?;
        let client = plane.client()?;
        make_node(&client, "node01", json!({})).await?;
        let kubelets = Kubelets::start(&client);
        let deployments = Api::<Object>::of_kind(&client, kind("deployments"));
        let mut web = deployment(replicas, "web:1");
        change(&mut web);
        deployments.create(&web).await?;
        let shop = Shop { _plane: plane, client, kubelets, deployments };
        shop.settled(replicas).await;
        shop.kubelets.count_anew();
        Ok(shop)
    }

    async fn settled(&self, replicas: i64) {
        settled(&self.client, usize::try_from(replicas).expect("not negative")).await;
    }

    async fn patch(&self, patch: Value) -> anyhow::Result<Cached<Object>> {
        Ok(self.deployments.patch(&web(), &Patch::Merge(patch)).await?)
    }

    async fn set_image(&self, image: &str) -> anyhow::Result<()> {
        let containers = json!([{"name": "c", "image": image}]);
        self.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}})).await.map(drop)
    }

    /// Writes the template of a set back, as `rollout undo` does.
    async fn roll_back_to(&self, image: &str) -> anyhow::Result<()> {
        let sets = self.sets().await.map_err(anyhow::Error::msg)?;
        let set = sets.iter().find(|set| image_of(set) == image).expect("it is remembered");
        let mut template = set.at(&["spec", "template"]).cloned().expect("a template");
        template["metadata"]["labels"]["pod-template-hash"] = Value::Null;
        self.patch(json!({"spec": {"template": template}})).await.map(drop)
    }

    async fn sets(&self) -> Result<Vec<Object>, String> {
        list(&self.client, "replicasets").await
    }

    /// `image revision history size` of each set, in order of revision.
    async fn history(&self) -> Result<Vec<String>, String> {
        let mut sets = self.sets().await?;
        sets.sort_by_key(|set| set.annotation(REVISION).and_then(|number| number.parse::<i64>().ok()));
        let line = |set: &Object| {
            let note = |name: &str| set.annotation(name).unwrap_or("-").to_owned();
            let size = set.int(&["spec", "replicas"]).unwrap_or(-1);
            let before = note("deployment.kubernetes.io/revision-history");
            format!("{} {} {before} {size}", image_of(set), note(REVISION))
        };
        Ok(sets.iter().map(line).collect())
    }

    async fn becomes_history(&self, expected: &[&str]) {
        eventually(LIMIT, &format!("history {expected:?}"), || async {
            let history = self.history().await?;
            if history == expected { Ok(()) } else { Err(format!("{history:?}")) }
        })
        .await;
    }

    /// The steps told by Events, in the order in which they were told: `up web:2 0>1`.
    async fn steps(&self) -> Result<Vec<String>, String> {
        let sets = self.sets().await?;
        let image = |name: &str| sets.iter().find(|set| set.name() == name).map_or("gone".to_owned(), image_of);
        let mut events = list(&self.client, "events").await?;
        events.retain(|event| event.text(&["reason"]) == "ScalingReplicaSet");
        events.sort_by_key(Object::revision);
        let step = |event: &Object| {
            assert_eq!(event.text(&["source", "component"]), "deployment-controller");
            assert_eq!(event.int(&["count"]), Some(1), "told once");
            let words: Vec<&str> = event.text(&["message"]).split(' ').collect();
            let ["Scaled", direction, "replica", "set", name, "from", from, "to", to] = words[..] else {
                panic!("{words:?}")
            };
            format!("{direction} {} {from}>{to}", image(name))
        };
        Ok(events.iter().map(step).collect())
    }

    async fn becomes_steps(&self, expected: &[&str]) {
        eventually(LIMIT, &format!("steps {expected:?}"), || async {
            let steps = self.steps().await?;
            if steps == expected { Ok(()) } else { Err(format!("{steps:?}")) }
        })
        .await;
    }

    /// Waits for a condition: `Status Reason: message`, with the names of sets as their images.
    async fn says(&self, kind: &str, expected: &str) {
        eventually(LIMIT, &format!("{kind} {expected}"), || async {
            let web = self.deployments.get(&web()).await.map_err(|e| e.to_string())?.object;
            let condition = web.condition(kind).cloned().unwrap_or_default();
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let mut said = format!("{} {}: {}", text("status"), text("reason"), text("message"));
            for set in self.sets().await? {
                said = said.replace(set.name(), &image_of(&set));
            }
            if said == expected { Ok(()) } else { Err(said) }
        })
        .await;
    }
}

fn image_of(set: &Object) -> String {
    let containers = set.at(&["spec", "template", "spec", "containers"]);
    containers.and_then(|c| c[0]["image"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_three_goes_up_and_down_in_turn() -> anyhow::Result<()> {
    let shop = Shop::open(3, |_| {}).await?;
    shop.says("Progressing", "True NewReplicaSetAvailable: ReplicaSet \"web:1\" has successfully progressed.").await;
    shop.set_image("web:2").await?;
    shop.settled(3).await;
    shop.becomes_steps(&[
        "up web:1 0>3",
        "up web:2 0>1",
        "down web:1 3>2",
        "up web:2 1>2",
        "down web:1 2>1",
        "up web:2 2>3",
        "down web:1 1>0",
    ])
    .await;
    assert!(shop.kubelets.most() <= 4, "{} pods at once", shop.kubelets.most());
    assert!(shop.kubelets.fewest_ready() >= 3, "only {} ready", shop.kubelets.fewest_ready());
    shop.becomes_history(&["web:1 1 - 0", "web:2 2 - 3"]).await;
    shop.says("Progressing", "True NewReplicaSetAvailable: ReplicaSet \"web:2\" has successfully progressed.").await;
    shop.says("Available", "True MinimumReplicasAvailable: Deployment has minimum availability.").await;
    let web = shop.deployments.get(&web()).await?.object;
    assert_eq!(web.annotation(REVISION), Some("2"));
    for set in shop.sets().await.map_err(anyhow::Error::msg)? {
        assert_eq!(set.annotation("deployment.kubernetes.io/desired-replicas"), Some("3"));
        assert_eq!(set.annotation("deployment.kubernetes.io/max-replicas"), Some("4"));
        let hash = set.label("pod-template-hash").unwrap_or_default();
        assert_eq!(set.name(), format!("web-{hash}"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn recreate_lets_the_last_old_pod_go_before_the_first_new_one_comes() -> anyhow::Result<()> {
    let recreate = |web: &mut Object| web.set(&["spec", "strategy"], json!({"type": "Recreate"}));
    let shop = Shop::open(3, recreate).await?;
    shop.set_image("web:2").await?;
    shop.settled(3).await;
    shop.becomes_steps(&["up web:1 0>3", "down web:1 3>0", "up web:2 0>3"]).await;
    assert_eq!(shop.kubelets.most_sets(), 1, "pods of two templates at once");
    // Another template and another size in one write.
    shop.patch(json!({"spec": {"replicas": 5, "template": {"metadata": {"annotations": {"go": "3"}}}}})).await?;
    shop.settled(5).await;
    assert_eq!(shop.kubelets.most_sets(), 1, "pods of two templates at once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_to_recreate_with_another_size_in_the_middle_goes_on() -> anyhow::Result<()> {
    let shop = Shop::open(4, |_| {}).await?;
    shop.set_image("web:bad").await?;
    eventually(LIMIT, "both sets have pods", || async {
        let history = shop.history().await?;
        if history.iter().all(|line| !line.ends_with(" 0")) && history.len() == 2 { Ok(()) } else { Err(history) }
            .map_err(|history| format!("{history:?}"))
    })
    .await;
    let strategy = json!({"type": "Recreate", "rollingUpdate": null});
    let containers = json!([{"name": "c", "image": "web:1"}]);
    shop.patch(
        json!({"spec": {"replicas": 2, "strategy": strategy, "template": {"spec": {"containers": containers}}}}),
    )
    .await?;
    shop.settled(2).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_deployment_scales_and_waits_with_its_template() -> anyhow::Result<()> {
    let shop = Shop::open(2, |_| {}).await?;
    shop.patch(json!({"spec": {"paused": true}})).await?;
    shop.says("Progressing", "Unknown DeploymentPaused: Deployment is paused").await;
    shop.set_image("web:2").await?;
    shop.set_image("web:3").await?;
    shop.patch(json!({"spec": {"replicas": 5}})).await?;
    shop.becomes_history(&["web:1 1 - 5"]).await;
    shop.patch(json!({"spec": {"paused": false}})).await?;
    shop.settled(5).await;
    shop.becomes_history(&["web:1 1 - 0", "web:3 2 - 5"]).await;
    shop.says("Progressing", "True NewReplicaSetAvailable: ReplicaSet \"web:3\" has successfully progressed.").await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_kept_and_an_old_template_takes_its_set_again() -> anyhow::Result<()> {
    let shop = Shop::open(2, |web| web.set(&["spec", "revisionHistoryLimit"], 2)).await?;
    for image in ["web:2", "web:3"] {
        shop.set_image(image).await?;
        shop.settled(2).await;
    }
    shop.becomes_history(&["web:1 1 - 0", "web:2 2 - 0", "web:3 3 - 2"]).await;
    let before = shop.sets().await.map_err(anyhow::Error::msg)?.len();
    shop.roll_back_to("web:1").await?;
    shop.settled(2).await;
    shop.becomes_history(&["web:2 2 - 0", "web:3 3 - 0", "web:1 4 1 2"]).await;
    assert_eq!(shop.sets().await.map_err(anyhow::Error::msg)?.len(), before, "no set was made");
    assert_eq!(shop.deployments.get(&web()).await?.object.annotation(REVISION), Some("4"));
    // A fourth template: the oldest of three old sets is forgotten.
    shop.patch(json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "to four"}}})).await?;
    shop.set_image("web:4").await?;
    shop.settled(2).await;
    shop.becomes_history(&["web:3 3 - 0", "web:1 4 1 0", "web:4 5 - 2"]).await;
    let sets = shop.sets().await.map_err(anyhow::Error::msg)?;
    let newest = sets.iter().find(|set| image_of(set) == "web:4").expect("it is there");
    assert_eq!(newest.annotation("kubernetes.io/change-cause"), Some("to four"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_stands_still_is_told_and_ended_by_a_good_template() -> anyhow::Result<()> {
    let shop = Shop::open(3, |web| web.set(&["spec", "progressDeadlineSeconds"], 2)).await?;
    shop.set_image("web:bad").await?;
    // Nothing changes any more when the time is up: the controller must have set itself an alarm.
    shop.says("Progressing", "False ProgressDeadlineExceeded: ReplicaSet \"web:bad\" has timed out progressing.").await;
    assert_eq!(shop.kubelets.fewest_ready(), 3, "the old pods stay");
    shop.becomes_history(&["web:1 1 - 3", "web:bad 2 - 1"]).await;
    shop.set_image("web:3").await?;
    shop.settled(3).await;
    shop.says("Progressing", "True NewReplicaSetAvailable: ReplicaSet \"web:3\" has successfully progressed.").await;
    assert!(shop.kubelets.most() <= 4, "{} pods at once", shop.kubelets.most());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_rollout_is_scaled_in_proportion() -> anyhow::Result<()> {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    let shop = Shop::open(10, |web| web.set(&["spec", "strategy"], strategy)).await?;
    shop.set_image("web:bad").await?;
    shop.becomes_history(&["web:1 1 - 8", "web:bad 2 - 5"]).await;
    shop.patch(json!({"spec": {"replicas": 15}})).await?;
    shop.becomes_history(&["web:1 1 - 11", "web:bad 2 - 7"]).await;
    shop.roll_back_to("web:1").await?;
    shop.settled(15).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_surge_that_is_scaled_half_way_completes() -> anyhow::Result<()> {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let shop = Shop::open(5, |web| web.set(&["spec", "strategy"], strategy)).await?;
    shop.set_image("web:bad").await?;
    shop.becomes_history(&["web:1 1 - 4", "web:bad 2 - 1"]).await;
    shop.patch(json!({"spec": {"replicas": 4}})).await?;
    shop.set_image("web:3").await?;
    shop.settled(4).await;
    Ok(())
}

/// As recorded from Kubernetes 1.36: percentages that are rounded, and notes that only active sets get.
#[tokio::test(flavor = "multi_thread")]
async fn notes_are_those_that_were_recorded() -> anyhow::Result<()> {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "20%"}});
    let shop = Shop::open(4, |web| web.set(&["spec", "strategy"], strategy)).await?;
    let notes = || async {
        let mut sets = shop.sets().await?;
        sets.sort_by_key(|set| set.annotation(REVISION).map(str::to_owned));
        let line = |set: &Object| {
            let note = |name: &str| set.annotation(name).unwrap_or("-").to_owned();
            let size = set.int(&["spec", "replicas"]).unwrap_or(-1);
            let (most, wanted) = ("deployment.kubernetes.io/max-replicas", "deployment.kubernetes.io/desired-replicas");
            format!("{} {size} {} {}", note(REVISION), note(most), note(wanted))
        };
        Ok::<_, String>(sets.iter().map(line).collect::<Vec<_>>())
    };
    shop.set_image("web:2").await?;
    shop.settled(4).await;
    assert_eq!(notes().await.map_err(anyhow::Error::msg)?, ["1 0 5 4", "2 4 5 4"]);
    let steps = ["up web:1 0>4", "up web:2 0>1", "down web:1 4>3", "up web:2 1>2", "down web:1 3>2", "up web:2 2>3"];
    shop.becomes_steps(&[&steps[..], &["down web:1 2>1", "up web:2 3>4", "down web:1 1>0"]].concat()).await;
    let strategy = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let template = json!({"metadata": {"annotations": {"go": "3"}}});
    shop.patch(json!({"spec": {"strategy": strategy, "replicas": 3, "template": template}})).await?;
    shop.settled(3).await;
    assert_eq!(notes().await.map_err(anyhow::Error::msg)?, ["1 0 5 4", "2 0 3 3", "3 3 3 3"]);
    let web = shop.deployments.get(&web()).await?.object;
    assert_eq!(web.int(&["status", "unavailableReplicas"]), None);
    eventually(LIMIT, "none is on its way out, and that is said", || async {
        let web = shop.deployments.get(&crate::plane::web()).await.map_err(|e| e.to_string())?.object;
        let going = web.int(&["status", "terminatingReplicas"]);
        if going == Some(0) { Ok(()) } else { Err(format!("{going:?}")) }
    })
    .await;
    Ok(())
}
