//! Which change concerns which controller.
//!
//! Invariant: handlers decide by the change alone which keys to put where; they never act.

use std::sync::Arc;

use listwatch_proto::resource::{Kind, Object, ObjectKey};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::caches::{BY_NODE, Caches, Informers, kind};
use super::custom_kinds::CustomKinds;
use super::deployment::{DeploymentReconciler, deployments_of};
use super::disruption::{DisruptionReconciler, StaleDisruptionReconciler, covers};
use super::garbage_collector::{GarbageCollector, Graph, changed, removed};
use super::namespace::NamespaceReconciler;
use super::node_lifecycle::{LEASE_NAMESPACE, NodeLifecycleReconciler};
use super::owned::{Owned, known};
use super::pod_gc::{FINISHED_KEY, PodGcReconciler, key_of_node, out_of_service, stranded};
use super::program::{Options, Recorders};
use super::replica_set::{ReplicaSetReconciler, sets_of};
use super::resource_quota::{ResourceQuotaReconciler, concerns};
use super::role_aggregation::{RoleAggregationReconciler, every_role};
use super::root_ca::{self, RootCaReconciler};
use super::service_account::{self, ServiceAccountReconciler};
use super::taint_eviction::TaintEvictionReconciler;
use super::tools::Tools;
use crate::client::Cached;
use crate::runtime::{Change, Controller, Informer, RateLimitedQueue, Reconciler};

/// Keys run at the same time, where upstream has more than the usual five.
const COLLECTOR_WORKERS: usize = 20;
const NODE_WORKERS: usize = 8;
/// Changes of what a quota counts are let come together for so long.
const COUNT_AFTER: std::time::Duration = std::time::Duration::from_millis(200);
/// Kinds whose objects may use less of a quota by a change that leaves them there.
const SHRINKING: [&str; 2] = ["services", "persistentvolumeclaims"];

/// All controllers, wired to the informers, not yet running.
pub(super) struct Controllers {
    deployment: Controller<DeploymentReconciler>,
    replica_set: Controller<ReplicaSetReconciler>,
    node_lifecycle: Controller<NodeLifecycleReconciler>,
    taint_eviction: Controller<TaintEvictionReconciler>,
    pod_gc: Controller<PodGcReconciler>,
    namespace: Controller<NamespaceReconciler>,
    resource_quota: Controller<ResourceQuotaReconciler>,
    service_account: Controller<ServiceAccountReconciler>,
    root_ca: Option<Controller<RootCaReconciler>>,
    role_aggregation: Controller<RoleAggregationReconciler>,
    disruption: Controller<DisruptionReconciler>,
    stale_disruption: Controller<StaleDisruptionReconciler>,
    collectors: Vec<Controller<GarbageCollector>>,
    custom_kinds: Option<CustomKinds>,
}

type Keys = RateLimitedQueue<ObjectKey>;

fn controller<R: Reconciler>(name: &'static str, reconciler: R, caches: &Caches) -> Controller<R> {
    let controller = Controller::new(name, reconciler)
        .reads_kind(kind("", "pods"), &caches.pods)
        .reads_kind(kind("", "nodes"), &caches.nodes)
        .reads_kind(kind("coordination.k8s.io", "leases"), &caches.leases)
        .reads_kind(kind("", "namespaces"), &caches.namespaces)
        .reads_kind(kind("apps", "deployments"), &caches.deployments)
        .reads_kind(kind("apps", "replicasets"), &caches.replica_sets)
        .reads_kind(kind("", "resourcequotas"), &caches.quotas)
        .reads_kind(kind("policy", "poddisruptionbudgets"), &caches.budgets);
    caches.others.iter().fold(controller, |controller, (kind, other)| controller.reads_kind(kind, other))
}

impl Controllers {
    /// Makes the controllers and hooks their queues to the informers.
    pub(super) fn wire(options: &Options, recorders: &Recorders, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let tools = |name| recorders.tools(name);
        let controllers = Controllers {
            deployment: controller(
                "deployment",
                DeploymentReconciler::new(caches.clone(), tools("deployment-controller")),
                &caches,
            ),
            replica_set: controller(
                "replicaset",
                ReplicaSetReconciler::new(caches.clone(), tools("replicaset-controller")),
                &caches,
            ),
            node_lifecycle: controller(
                "node-lifecycle",
                NodeLifecycleReconciler::new(caches.clone(), tools("node-controller"), options.nodes),
                &caches,
            )
            .workers(NODE_WORKERS),
            taint_eviction: controller(
                "taint-eviction",
                TaintEvictionReconciler::new(caches.clone(), tools("taint-eviction-controller")),
                &caches,
            )
            .workers(NODE_WORKERS),
            pod_gc: controller(
                "pod-gc",
                PodGcReconciler::new(caches.clone(), tools("pod-garbage-collector-controller"), options.pods),
                &caches,
            ),
            namespace: controller(
                "namespace",
                NamespaceReconciler::new(caches.clone(), tools("namespace-controller")),
                &caches,
            ),
            service_account: controller(
                "service-account",
                ServiceAccountReconciler::new(caches.clone(), &tools("controller-manager")),
                &caches,
            ),
            root_ca: options.root_ca.clone().map(|authority| {
                let reconciler = RootCaReconciler::new(caches.clone(), &tools("controller-manager"), authority);
                controller("root-ca", reconciler, &caches)
            }),
            role_aggregation: controller(
                "role-aggregation",
                RoleAggregationReconciler::new(&tools("controller-manager")),
                &caches,
            ),
            resource_quota: controller(
                "resource-quota",
                ResourceQuotaReconciler::new(tools("resourcequota-controller")),
                &caches,
            ),
            disruption: controller(
                "disruption",
                DisruptionReconciler::new(caches.clone(), tools("controllermanager")),
                &caches,
            ),
            stale_disruption: controller(
                "stale-disruption",
                StaleDisruptionReconciler::new(caches.clone(), tools("controllermanager")),
                &caches,
            ),
            collectors: Vec::new(),
            custom_kinds: None,
        };
        controllers.node_lifecycle.reconciler().connect(controllers.node_lifecycle.queue());
        controllers.hook_workloads(informers, &caches);
        controllers.hook_nodes(informers);
        controllers.hook_taint_eviction(informers, &caches);
        controllers.hook_pod_gc(informers, &caches, options.pods.period);
        controllers.hook_namespaces(informers, &caches);
        controllers.hook_accounts(informers);
        controllers.hook_quotas(informers, &caches);
        controllers.hook_disruption(informers, &caches);
        controllers.with_collectors(tools("garbage-collector-controller"), informers, &caches)
    }

    fn hook_workloads(&self, informers: &mut Informers, caches: &Caches) {
        let deployments = self.deployment.queue();
        informers.deployments.on_change(move |change| deployments.add(change.key().clone()));

        let (deployments, sets, of) = (self.deployment.queue(), self.replica_set.queue(), caches.clone());
        informers.replica_sets.on_change(move |change| {
            sets.add(change.key().clone());
            each(change, |set| add_all(&deployments, deployments_of(&of, set)));
        });

        let (deployments, sets, of) = (self.deployment.queue(), self.replica_set.queue(), caches.clone());
        informers.pods.on_change(move |change| {
            each(change, |pod| add_all(&sets, sets_of(&of, pod)));
            // A deployment that recreates waits for the end of its last old pod.
            let pod = change.object();
            if matches!(change, Change::Deleted(_)) || pod.is_finished() {
                for key in sets_of(&of, pod) {
                    if let Some(set) = of.replica_sets.get(&key) {
                        add_all(&deployments, deployments_of(&of, &set));
                    }
                }
            }
        });
    }

    fn hook_nodes(&self, informers: &mut Informers) {
        let nodes = self.node_lifecycle.queue();
        informers.nodes.on_change(move |change| nodes.add(change.key().clone()));
        let nodes = self.node_lifecycle.queue();
        informers.leases.on_change(move |change| {
            if change.key().namespace == LEASE_NAMESPACE {
                nodes.add(ObjectKey::new("", &*change.key().name));
            }
        });
    }

    /// What an eviction costs follows the pods of the tainted node.
    fn hook_taint_eviction(&self, informers: &mut Informers, caches: &Caches) {
        let (pods, evictions) = (self.taint_eviction.queue(), self.taint_eviction.reconciler().clone());
        informers.pods.on_change(move |change| {
            let pod = change.object();
            let same = match change {
                Change::Updated { old, .. } => {
                    old.node == pod.node && old.tolerations == pod.tolerations && old.terminating == pod.terminating
                }
                _ => pod.node.is_empty(),
            };
            if !same && evictions.concerns(&pod.key, pod) {
                pods.add(pod.key.clone());
            }
        });
        let (pods, evictions) = (self.taint_eviction.queue(), self.taint_eviction.reconciler().clone());
        let on_node = caches.pods.clone();
        informers.nodes.on_change(move |change| {
            let node = change.object();
            let same = match change {
                Change::Updated { old, .. } => old.evicting().eq(node.evicting()),
                _ => node.evicting().next().is_none(),
            };
            if same {
                return;
            }
            if matches!(change, Change::Deleted(_)) || node.evicting().next().is_none() {
                evictions.forget_node(&node.key.name);
            }
            on_node.by_index(BY_NODE, &node.key.name).iter().for_each(|pod| pods.add(pod.key.clone()));
        });
    }

    fn hook_pod_gc(&self, informers: &mut Informers, caches: &Caches, period: std::time::Duration) {
        let (keys, nodes) = (self.pod_gc.queue(), caches.nodes.clone());
        informers.pods.on_change(move |change| {
            if matches!(change, Change::Deleted(_)) {
                return;
            }
            let pod = change.object();
            let before = match change {
                Change::Updated { old, .. } => Some(old),
                _ => None,
            };
            if pod.terminating && stranded(pod, nodes.get(&key_of_node(&pod.node)).as_deref().map(|n| &n.object)) {
                keys.add(pod.key.clone());
            }
            if !pod.node.is_empty() && before.is_none_or(|old| old.node != pod.node) {
                keys.add(key_of_node(&pod.node));
            }
            if pod.is_finished() && before.is_none_or(|old| !old.is_finished()) {
                keys.add_after(FINISHED_KEY, period);
            }
        });
        let keys = self.pod_gc.queue();
        informers.nodes.on_change(move |change| {
            if !matches!(change, Change::Updated { .. }) || out_of_service(change.object()) {
                keys.add(change.key().clone());
            }
        });
    }

    fn hook_namespaces(&self, informers: &mut Informers, caches: &Caches) {
        let namespaces = self.namespace.queue();
        informers.namespaces.on_change(move |change| namespaces.add(change.key().clone()));
        hook_emptied(&mut informers.pods, &self.namespace.queue(), caches);
        hook_emptied(&mut informers.leases, &self.namespace.queue(), caches);
        hook_emptied(&mut informers.deployments, &self.namespace.queue(), caches);
        hook_emptied(&mut informers.replica_sets, &self.namespace.queue(), caches);
        hook_emptied(&mut informers.quotas, &self.namespace.queue(), caches);
        hook_emptied(&mut informers.budgets, &self.namespace.queue(), caches);
        informers.others.iter_mut().for_each(|other| hook_emptied(other, &self.namespace.queue(), caches));
    }

    /// What every namespace has is made with it, and again when it is taken away.
    fn hook_accounts(&self, informers: &mut Informers) {
        let (accounts, authorities) = (self.service_account.queue(), self.root_ca.as_ref().map(Controller::queue));
        informers.namespaces.on_change(move |change| {
            if !matches!(change, Change::Deleted(_)) {
                accounts.add(change.key().clone());
                authorities.iter().for_each(|queue| queue.add(change.key().clone()));
            }
        });
        let namespace_of = |key: &ObjectKey| ObjectKey::new("", &*key.namespace);
        let (service_accounts, config_maps, roles) =
            (kind("", "serviceaccounts"), kind("", "configmaps"), kind("rbac.authorization.k8s.io", "clusterroles"));
        for other in &mut informers.others {
            if other.kind() == service_accounts {
                let accounts = self.service_account.queue();
                other.on_change(move |change| {
                    if change.key().name == service_account::DEFAULT && matches!(change, Change::Deleted(_)) {
                        accounts.add(namespace_of(change.key()));
                    }
                });
            } else if other.kind() == config_maps {
                let Some(authorities) = self.root_ca.as_ref().map(Controller::queue) else { continue };
                other.on_change(move |change| {
                    if change.key().name == root_ca::NAME {
                        authorities.add(namespace_of(change.key()));
                    }
                });
            } else if other.kind() == roles {
                let roles = self.role_aggregation.queue();
                other.on_change(move |_| roles.add(every_role()));
            }
        }
    }

    /// What has gone, or uses less than before, is taken off the quotas that counted it.
    fn hook_quotas(&self, informers: &mut Informers, caches: &Caches) {
        let quotas = self.resource_quota.queue();
        informers.quotas.on_change(move |change| {
            let limits = |quota: &Object| (quota.0.get("spec").cloned(), quota.0.get("status").is_some());
            let same = matches!(change, Change::Updated { old, new } if limits(&old.object) == limits(&new.object));
            if !same && !matches!(change, Change::Deleted(_)) {
                quotas.add(change.key().clone());
            }
        });
        let queue = self.resource_quota.queue();
        hook_counted(&mut informers.quotas, &queue, caches, |_, _| false);
        hook_counted(&mut informers.pods, &queue, caches, |old, new| new.is_finished() && !old.is_finished());
        hook_counted(&mut informers.leases, &queue, caches, |_, _| false);
        hook_counted(&mut informers.deployments, &queue, caches, |_, _| false);
        hook_counted(&mut informers.replica_sets, &queue, caches, |_, _| false);
        hook_counted(&mut informers.budgets, &queue, caches, |_, _| false);
        for other in &mut informers.others {
            let shrinks = SHRINKING.contains(&other.kind().plural);
            hook_counted(other, &queue, caches, move |_, _| shrinks);
        }
    }

    /// A budget follows the pods it speaks of, as they were and as they are.
    fn hook_disruption(&self, informers: &mut Informers, caches: &Caches) {
        let budgets = self.disruption.queue();
        informers.budgets.on_change(move |change| budgets.add(change.key().clone()));
        let (budgets, stale, of) = (self.disruption.queue(), self.stale_disruption.queue(), caches.budgets.clone());
        informers.pods.on_change(move |change| {
            for budget in of.in_namespace(&change.key().namespace) {
                each(change, |pod| {
                    if covers(&budget, pod) {
                        budgets.add(budget.key.clone());
                    }
                });
            }
            if !matches!(change, Change::Deleted(_)) && StaleDisruptionReconciler::concerns(change.object()) {
                stale.add(change.key().clone());
            }
        });
    }

    fn with_collectors(mut self, tools: Tools, informers: &mut Informers, caches: &Caches) -> Self {
        let mut graph = Graph::builder();
        for (kind, members) in caches.members() {
            let collector = collector(kind, caches);
            graph.add(kind, members, collector.queue());
            self.collectors.push(collector);
        }
        let client = tools.client.clone();
        let graph = graph.build(tools);
        for collector in &self.collectors {
            collector.reconciler().connect(graph.clone());
        }
        hook_graph(&mut informers.pods, &graph);
        hook_graph(&mut informers.nodes, &graph);
        hook_graph(&mut informers.leases, &graph);
        hook_graph(&mut informers.namespaces, &graph);
        hook_graph(&mut informers.deployments, &graph);
        hook_graph(&mut informers.replica_sets, &graph);
        hook_graph(&mut informers.quotas, &graph);
        hook_graph(&mut informers.budgets, &graph);
        informers.others.iter_mut().for_each(|other| hook_graph(other, &graph));
        self.custom_kinds = Some(CustomKinds::new(&client, graph, informers));
        self
    }

    /// Runs them all until told to stop, then waits for the runs under way.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.deployment.run(stop.clone()));
        tasks.spawn(self.replica_set.run(stop.clone()));
        tasks.spawn(self.node_lifecycle.run(stop.clone()));
        tasks.spawn(self.taint_eviction.run(stop.clone()));
        tasks.spawn(self.pod_gc.run(stop.clone()));
        tasks.spawn(self.namespace.run(stop.clone()));
        tasks.spawn(self.service_account.run(stop.clone()));
        if let Some(root_ca) = self.root_ca {
            tasks.spawn(root_ca.run(stop.clone()));
        }
        tasks.spawn(self.role_aggregation.run(stop.clone()));
        tasks.spawn(self.resource_quota.run(stop.clone()));
        tasks.spawn(self.disruption.run(stop.clone()));
        tasks.spawn(self.stale_disruption.run(stop.clone()));
        for collector in self.collectors {
            tasks.spawn(collector.run(stop.clone()));
        }
        if let Some(custom_kinds) = self.custom_kinds {
            tasks.spawn(custom_kinds.run(stop.clone()));
        }
        while tasks.join_next().await.is_some() {}
    }
}

/// Calls with the object as it is, and as it was if that differs.
fn each<T>(change: &Change<T>, mut call: impl FnMut(&Cached<T>)) {
    if let Change::Updated { old, .. } = change {
        call(old);
    }
    call(change.object());
}

fn add_all(queue: &Keys, keys: Vec<ObjectKey>) {
    keys.into_iter().for_each(|key| queue.add(key));
}

/// The last object of a kind has gone from a namespace that is being emptied.
fn hook_emptied<T: Owned + crate::client::Decode>(informer: &mut Informer<T>, queue: &Keys, caches: &Caches) {
    let (queue, namespaces, store) = (queue.clone(), caches.namespaces.clone(), informer.store());
    informer.on_change(move |change| {
        let namespace = &change.key().namespace;
        if !matches!(change, Change::Deleted(_)) || namespace.is_empty() {
            return;
        }
        let key = ObjectKey::new("", &**namespace);
        let going = |namespace: Arc<Cached<Object>>| namespace.object.is_terminating();
        if namespaces.get(&key).is_some_and(going) && store.in_namespace(namespace).is_empty() {
            queue.add(key);
        }
    });
}

/// An object that quotas count has gone, or uses less.
fn hook_counted<T: Owned + crate::client::Decode>(
    informer: &mut Informer<T>,
    queue: &Keys,
    caches: &Caches,
    shrinks: impl Fn(&Cached<T>, &Cached<T>) -> bool + Send + Sync + 'static,
) {
    let (queue, quotas, kind) = (queue.clone(), caches.quotas.clone(), informer.kind());
    informer.on_change(move |change| {
        let less = match change {
            Change::Added(_) => false,
            Change::Updated { old, new } => shrinks(old, new),
            Change::Deleted(_) => true,
        };
        let namespace = &change.key().namespace;
        if !less || namespace.is_empty() {
            return;
        }
        for quota in quotas.in_namespace(namespace).iter().filter(|quota| concerns(&quota.object, kind)) {
            queue.add_after(quota.key.clone(), COUNT_AFTER);
        }
    });
}

/// A collector of a kind; it is connected to the graph before it runs.
pub(super) fn collector(kind: &'static Kind, caches: &Caches) -> Controller<GarbageCollector> {
    controller("garbage-collector", GarbageCollector::new(kind), caches).workers(COLLECTOR_WORKERS)
}

pub(super) fn hook_graph<T: Owned + crate::client::Decode>(informer: &mut Informer<T>, graph: &Graph) {
    let (graph, kind) = (graph.clone(), informer.kind());
    informer.on_change(move |change| match change {
        Change::Added(object) => changed(&graph, kind, None, &known(object)),
        Change::Updated { old, new } => changed(&graph, kind, Some(&known(old)), &known(new)),
        Change::Deleted(object) => removed(&graph, &known(object)),
    });
}
