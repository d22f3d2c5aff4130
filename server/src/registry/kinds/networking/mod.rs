//! The kinds of the API group `networking.k8s.io`, a file each.

use super::strategy::Strategy;

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod reference;
mod service_cidr;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "Ingress" => &ingress::IngressStrategy,
        "IngressClass" => &ingress_class::IngressClassStrategy,
        "IPAddress" => &ip_address::IPAddressStrategy,
        "NetworkPolicy" => &network_policy::NetworkPolicyStrategy,
        "ServiceCIDR" => &service_cidr::ServiceCIDRStrategy,
        _ => return None,
    })
}
