//! Addresses as Kubernetes reads them: those with leading zeros are understood, since older versions took them, and
//! refused.

use std::net::{IpAddr, Ipv4Addr};

use super::faults::{Faults, Path};

/// An address, also one with leading zeros.
pub(in crate::registry::kinds) fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let parts: Vec<&str> = text.split('.').collect();
    let octet = |part: &&str| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| digits).and_then(|n| u8::try_from(n).ok())
    };
    let octets: Vec<u8> = parts.iter().filter_map(octet).collect();
    let octets: [u8; 4] = octets.try_into().ok()?;
    (parts.len() == 4).then(|| IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Whether it is a range: `10.9.8.0/24`.
pub(in crate::registry::kinds) fn is_range(text: &str) -> bool {
    parse_range(text).is_some()
}

fn parse_range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse(address)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    let bits = bits.parse::<u8>().ok().filter(|bits| digits && *bits <= max)?;
    Some((address, bits))
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some())
}

/// An address must be one.
pub(in crate::registry::kinds) fn ip(text: &str, path: &Path, faults: &mut Faults) {
    match parse(text) {
        None => faults.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        Some(_) if text.parse::<IpAddr>().is_err() => faults.invalid(path, text, "must not have leading 0s"),
        Some(address) if is_mapped(address) => {
            faults.invalid(path, text, "must not be an IPv4-mapped IPv6 address");
        }
        Some(_) => {}
    }
}

/// A range must be one that begins where it says.
pub(in crate::registry::kinds) fn range(text: &str, path: &Path, faults: &mut Faults) {
    let Some((address, bits)) = parse_range(text) else {
        faults.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return;
    };
    let (written, digits) = text.split_once('/').unwrap_or((text, ""));
    if written.parse::<IpAddr>().is_err() || digits != bits.to_string() {
        faults.invalid(path, text, "must not have leading 0s in IP or prefix length");
    } else if is_mapped(address) {
        faults.invalid(path, text, "must not have an IPv4-mapped IPv6 address");
    } else if !begins_there(address, bits) {
        faults.invalid(path, text, "must not have bits set beyond the prefix length");
    }
}

/// Whether no bit is set behind the prefix.
fn begins_there(address: IpAddr, bits: u8) -> bool {
    match address {
        IpAddr::V4(four) => u32::from(four).checked_shl(u32::from(bits)).unwrap_or(0) == 0,
        IpAddr::V6(six) => u128::from(six).checked_shl(u32::from(bits)).unwrap_or(0) == 0,
    }
}

/// An address must be one, and written as it is printed.
pub(in crate::registry::kinds) fn canonical_ip(text: &str, path: &Path, faults: &mut Faults) {
    let before = faults.len();
    ip(text, path, faults);
    if faults.len() == before
        && let Some(address) = parse(text)
        && address.to_string() != text
    {
        faults.invalid(path, text, &format!("must be in canonical form (\"{address}\")"));
    }
}

/// A range must be one that begins where it says, and written as it is printed.
pub(in crate::registry::kinds) fn canonical_range(text: &str, path: &Path, faults: &mut Faults) {
    let before = faults.len();
    range(text, path, faults);
    if faults.len() == before
        && let Some((address, bits)) = parse_range(text)
        && format!("{address}/{bits}") != text
    {
        faults.invalid(path, text, &format!("must be in canonical form (\"{address}/{bits}\")"));
    }
}

/// `IPv4` or `IPv6`; empty for what is no address.
pub(in crate::registry::kinds) fn family(text: &str) -> &'static str {
    match parse(text) {
        None => "",
        Some(IpAddr::V6(six)) if six.to_ipv4_mapped().is_none() => "IPv6",
        Some(_) => "IPv4",
    }
}

/// An address where packets can be sent: not this host, not this link, not nowhere (upstream's `ValidateEndpointIP`).
pub(in crate::registry::kinds) fn endpoint(text: &str, path: &Path, faults: &mut Faults) {
    let Some(address) = parse(text) else {
        faults.invalid(path, text, "must be a valid IP address");
        return;
    };
    let address = address.to_canonical();
    let (link_local, group) = match address {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        faults.invalid(path, text, &format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        faults.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        faults.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if group {
        faults.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// What is unusual about a valid range.
pub(in crate::registry::kinds) fn range_warnings(text: &str, path: &Path) -> Vec<String> {
    let Some((address, bits)) = parse_range(text) else { return Vec::new() };
    let address = address.to_canonical();
    let network = masked(address, bits);
    let mut warnings = Vec::new();
    if network != address {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value \"{text}\" is ambiguous in this context (should be \"{network}/{bits}\" or \
             \"{address}/{whole}\"?)"
        ));
    }
    let (written, digits) = text.split_once('/').unwrap_or((text, ""));
    let plain = written.parse::<IpAddr>().is_ok_and(|own| !is_mapped(own)) && digits == bits.to_string();
    if !plain {
        warnings.push(format!("{path}: non-standard CIDR value \"{text}\" is invalid: use \"{network}/{bits}\""));
    }
    if warnings.is_empty() && address.is_ipv6() && format!("{address}/{bits}") != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value \"{text}\" should be in RFC 5952 canonical format (\"{address}/{bits}\")"
        ));
    }
    warnings
}

/// The first address of a range.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(four) & mask).into())
        }
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(six) & mask).into())
        }
    }
}

/// Whether a range is a part of another, and not all of it; false for what is no range.
pub(in crate::registry::kinds) fn lies_within(part: &str, whole: &str) -> bool {
    let (Some((part, part_bits)), Some((whole, whole_bits))) = (parse_range(part), parse_range(whole)) else {
        return false;
    };
    part.is_ipv4() == whole.is_ipv4() && whole_bits < part_bits && masked(part, whole_bits) == masked(whole, whole_bits)
}

/// What is unusual about a valid address.
pub(in crate::registry::kinds) fn warning(text: &str, path: &Path) -> Option<String> {
    let address = parse(text)?;
    let usual = match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        four => four,
    };
    let shown = usual.to_string();
    if text.parse::<IpAddr>().is_err() || usual != address {
        return Some(format!("{path}: non-standard IP address \"{text}\" is invalid: use \"{shown}\""));
    }
    (address.is_ipv6() && shown != text)
        .then(|| format!("{path}: IPv6 address \"{text}\" should be in RFC 5952 canonical format (\"{shown}\")"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_range_is_smaller_and_within() {
        assert!(lies_within("10.1.0.0/16", "10.0.0.0/8"));
        assert!(!lies_within("10.0.0.0/8", "10.0.0.0/8"));
        assert!(!lies_within("11.0.0.0/16", "10.0.0.0/8"));
        assert!(lies_within("10.1.0.0/16", "0.0.0.0/0"));
        assert!(!lies_within("2001:db8::/64", "0.0.0.0/0"));
        assert!(lies_within("2001:db8:1::/64", "2001:db8::/32"));
    }

    #[test]
    fn unusual_ranges_are_told() {
        let path = Path::new("p");
        assert!(range_warnings("10.0.0.0/8", &path).is_empty());
        assert_eq!(
            range_warnings("10.1.2.3/8", &path),
            [
                "p: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"
            ]
        );
        assert_eq!(
            range_warnings("010.0.0.0/8", &path),
            ["p: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""]
        );
        assert_eq!(
            range_warnings("2001:DB8::/32", &path),
            ["p: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"]
        );
    }

    #[test]
    fn leading_zeros_are_understood_and_refused() {
        for good in ["1.2.3.4", "01.2.3.004", "::1", "2001:db8::1"] {
            assert!(parse(good).is_some(), "{good}");
        }
        for bad in ["", "1.2.3", "1.2.3.256", "1.2.3.4.5", "1.2.3.x", "1.2.3.+4"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        let path = Path::new("a");
        assert_eq!(warning("1.2.3.4", &path), None);
        assert_eq!(
            warning("01.2.3.4", &path).as_deref(),
            Some("a: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\"")
        );
        assert_eq!(
            warning("2001:db8:0::1", &path).as_deref(),
            Some("a: IPv6 address \"2001:db8:0::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")")
        );
        let told = |text: &str| {
            let mut faults = Faults::new();
            range(text, &Path::new("a"), &mut faults);
            faults.into_causes().into_iter().map(|c| c.message).collect::<Vec<_>>()
        };
        assert!(told("10.1.0.0/24").is_empty() && told("2001:db8::/32").is_empty() && told("::/0").is_empty());
        for (text, why) in [
            ("10.1.0.1/24", "must not have bits set beyond the prefix length"),
            ("10.1.0.0/024", "must not have leading 0s in IP or prefix length"),
            ("::ffff:1.2.3.4/128", "must not have an IPv4-mapped IPv6 address"),
        ] {
            assert_eq!(told(text), [format!("Invalid value: \"{text}\": {why}")]);
        }
        assert!(is_range("10.1.0.0/24") && !is_range("10.1.0.0/33") && !is_range("10.1.0.0"));
    }
}
