//! The account that a pod runs as.

use super::*;

fn bed_with_accounts() -> Bed {
    let store = MemoryStore::new();
    let options = RegistryOptions { plugins: AdmissionPlugins::all(), ..RegistryOptions::default() };
    let registry = Registry::new(Arc::new(store.clone()), ManualClock::new(1_700_000_000_000), options);
    Bed { store, registry }
}

#[tokio::test]
async fn a_pod_waits_for_the_default_account_of_its_namespace() {
    let bed = bed_with_accounts();
    let accounts = Target::collection(kind("serviceaccount"), "default");
    let account = json!({"metadata": {"name": "default"}});
    // The pod is asked for first: the account comes while it waits.
    let (target, pod) = (pods(), pod_json("a", json!({})));
    let (pod, account) = tokio::join!(bed.create(&target, &pod), bed.create(&accounts, &account));
    account.expect("an account");
    assert_eq!(pod.expect("a pod").object().text(&["spec", "serviceAccountName"]), "default");
}

#[tokio::test]
async fn a_pod_is_refused_where_the_default_account_never_comes() {
    let bed = bed_with_accounts();
    let refused = bed.create(&pods(), &pod_json("a", json!({}))).await.expect_err("no account");
    assert_eq!(refused.reason, Reason::Forbidden);
    let said = "error looking up service account default/default: serviceaccount \"default\" not found";
    assert!(refused.message.ends_with(said), "{}", refused.message);
}
