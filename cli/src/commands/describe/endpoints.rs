//! Endpoints: the addresses of a port in a line, and the descriptions of EndpointSlices and Endpoints, line by line as
//! kubectl 1.36 writes them.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::small::identity;
use super::text::field;

/// So many addresses are shown in a line (kubectl's number).
const ADDRESSES_MAX: usize = 3;
const UNSET: &str = "<unset>";

/// The addresses that are ready for the port of this name, only the first ones if there are many; `<none>` if there is no
/// slice at all. A slice without ports counts for every port.
pub(super) fn ready_addresses(slices: &[Object], port: &str) -> String {
    if slices.is_empty() {
        return "<none>".to_owned();
    }
    let (mut shown, mut count, mut has_more) = (Vec::new(), 0, false);
    let mut take = |endpoint: &Value, number: Option<i64>| {
        has_more |= shown.len() == ADDRESSES_MAX;
        if endpoint["conditions"]["ready"] == false {
            return;
        }
        let address = endpoint["addresses"][0].as_str().unwrap_or_default();
        if !has_more {
            shown.push(match number {
                Some(number) if address.contains(':') => format!("[{address}]:{number}"),
                Some(number) => format!("{address}:{number}"),
                None => address.to_owned(),
            });
        }
        count += 1;
    };
    for slice in slices {
        let list = |field: &str| slice.at(&[field]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if list("ports").is_empty() {
            list("endpoints").iter().for_each(|endpoint| take(endpoint, None));
        }
        for entry in list("ports").iter().filter(|entry| entry["name"].as_str().unwrap_or_default() == port) {
            list("endpoints").iter().for_each(|endpoint| take(endpoint, entry["port"].as_i64()));
        }
    }
    let text = shown.join(",");
    if has_more { format!("{text} + {} more...", count - ADDRESSES_MAX) } else { text }
}

/// An EndpointSlice, without the Events.
pub(super) fn slice(out: &mut String, object: &Object) {
    identity(out, object);
    field(out, "AddressType", object.text(&["addressType"]));
    let list = |field: &str| object.at(&[field]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let or_unset = |value: &Value| value.as_str().unwrap_or(UNSET).to_owned();
    if list("ports").is_empty() {
        out.push_str("Ports: <unset>\n");
    } else {
        out.push_str("Ports:\n  Name\tPort\tProtocol\n  ----\t----\t--------\n");
    }
    for port in list("ports") {
        let name = port["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(UNSET);
        let number = port["port"].as_i64().map_or_else(|| UNSET.to_owned(), |number| number.to_string());
        out.push_str(&format!("  {name}\t{number}\t{}\n", port["protocol"].as_str().unwrap_or_default()));
    }
    out.push_str(if list("endpoints").is_empty() { "Endpoints: <none>\n" } else { "Endpoints:\n" });
    for endpoint in list("endpoints") {
        let addresses = endpoint["addresses"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let addresses = addresses.collect::<Vec<_>>().join(", ");
        field(out, "  - Addresses", if addresses.is_empty() { "<none>" } else { &addresses });
        let ready =
            endpoint["conditions"]["ready"].as_bool().map_or_else(|| UNSET.to_owned(), |ready| ready.to_string());
        out.push_str(&format!("    Conditions:\n      Ready:\t{ready}\n"));
        field(out, "    Hostname", &or_unset(&endpoint["hostname"]));
        let target = &endpoint["targetRef"];
        if target.is_object() {
            let text = |field: &str| target[field].as_str().unwrap_or_default();
            field(out, "    TargetRef", &format!("{}/{}", text("kind"), text("name")));
        }
        field(out, "    NodeName", &or_unset(&endpoint["nodeName"]));
        field(out, "    Zone", &or_unset(&endpoint["zone"]));
    }
}

/// An Endpoints object, without the Events.
pub(super) fn endpoints(out: &mut String, object: &Object) {
    identity(out, object);
    out.push_str("Subsets:\n");
    for subset in object.at(&["subsets"]).and_then(Value::as_array).into_iter().flatten() {
        for (label, name) in [("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")] {
            let list = subset[name].as_array().into_iter().flatten().filter_map(|address| address["ip"].as_str());
            let text = list.collect::<Vec<_>>().join(",");
            field(out, &format!("  {label}"), if text.is_empty() { "<none>" } else { &text });
        }
        let ports = subset["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !ports.is_empty() {
            out.push_str("  Ports:\n    Name\tPort\tProtocol\n    ----\t----\t--------\n");
        }
        for port in ports {
            let name = port["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(UNSET);
            let protocol = port["protocol"].as_str().unwrap_or_default();
            out.push_str(&format!("    {name}\t{}\t{protocol}\n", port["port"]));
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn the_addresses_of_a_port_stand_in_a_line() {
        let endpoint =
            |address: &str, ready: Value| json!({"addresses": [address, "10.9.9.9"], "conditions": {"ready": ready}});
        let slice = |ports: Value, endpoints: Vec<Value>| object(json!({"ports": ports, "endpoints": endpoints}));
        let port = json!([{"name": "a", "port": 80}]);
        assert_eq!(ready_addresses(&[], "a"), "<none>");
        let unready = slice(port.clone(), vec![endpoint("10.0.0.1", json!(false))]);
        assert_eq!(ready_addresses(&[unready], "a"), "");
        let two = slice(port.clone(), vec![endpoint("10.0.0.1", json!(true)), endpoint("fd00::1", Value::Null)]);
        assert_eq!(ready_addresses(std::slice::from_ref(&two), "a"), "10.0.0.1:80,[fd00::1]:80");
        assert_eq!(ready_addresses(&[two], "b"), "");
        let bare = slice(Value::Null, vec![endpoint("10.0.0.1", json!(true))]);
        assert_eq!(ready_addresses(&[bare], "a"), "10.0.0.1");
        let five = (1..=5).map(|last| endpoint(&format!("10.0.0.{last}"), json!(true))).collect();
        assert_eq!(ready_addresses(&[slice(port, five)], "a"), "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...");
    }

    /// As kubectl 1.36.3 shows this slice.
    #[test]
    fn a_slice_is_described_as_kubectl_describes_it() {
        let es = object(json!({"metadata": {"name": "es", "namespace": "t"}, "addressType": "IPv4",
            "ports": [{"name": "a", "port": 80, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}, "nodeName": "node01",
                "targetRef": {"kind": "Pod", "name": "x"}}, {"addresses": ["10.0.0.10"], "conditions": {}}]}));
        let mut out = String::new();
        slice(&mut out, &es);
        assert_eq!(
            align(&out),
            "Name:         es\nNamespace:    t\nLabels:       <none>\nAnnotations:  <none>\nAddressType:  IPv4\nPorts:\n  \
             Name  Port  Protocol\n  ----  ----  --------\n  a     80    TCP\nEndpoints:\n  - Addresses:  10.0.0.9\n    \
             Conditions:\n      Ready:    true\n    Hostname:   <unset>\n    TargetRef:  Pod/x\n    NodeName:   node01\n    \
             Zone:       <unset>\n  - Addresses:  10.0.0.10\n    Conditions:\n      Ready:   <unset>\n    \
             Hostname:  <unset>\n    NodeName:  <unset>\n    Zone:      <unset>\n"
        );
    }

    #[test]
    fn endpoints_are_described_as_kubectl_describes_them() {
        let ep = object(json!({"metadata": {"name": "ep", "namespace": "t"}, "subsets": [
            {"addresses": [{"ip": "10.0.0.9"}, {"ip": "10.0.0.7"}], "ports": [{"port": 80, "protocol": "TCP"}]}]}));
        let mut out = String::new();
        endpoints(&mut out, &ep);
        assert_eq!(
            align(&out),
            "Name:         ep\nNamespace:    t\nLabels:       <none>\nAnnotations:  <none>\nSubsets:\n  \
             Addresses:          10.0.0.9,10.0.0.7\n  NotReadyAddresses:  <none>\n  Ports:\n    Name     Port  Protocol\n    \
             ----     ----  --------\n    <unset>  80    TCP\n\n"
        );
    }
}
