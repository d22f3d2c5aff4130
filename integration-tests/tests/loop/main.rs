//! The loop of controllers and scheduler over a real server, each a process of its own.
//!
//! * [`plane`]: server, controller manager, scheduler; [`kubelets`]: the test in the kubelets' place
//! * [`life`]: kills, lost nodes, owners and namespaces
//! * [`rollout`], [`pods`]: Deployments and ReplicaSets as a user sees them
//! * [`stale`]: a leader that was stopped and goes on; [`storm`]: kills and stops at random
//! * [`chain`]: a whole cluster with real kubelets

mod chain;
mod kubelets;
mod life;
mod plane;
mod pods;
mod rollout;
mod stale;
mod storm;
