//! Addresses as Kubernetes reads them: those with leading zeros are understood, since older versions took them, and
//! refused.

use std::net::{IpAddr, Ipv4Addr};

use super::faults::{Faults, Path};

/// An address, also one with leading zeros.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
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
pub(super) fn is_range(text: &str) -> bool {
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
pub(super) fn ip(text: &str, path: &Path, faults: &mut Faults) {
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
pub(super) fn range(text: &str, path: &Path, faults: &mut Faults) {
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

/// What is unusual about a valid address.
pub(super) fn warning(text: &str, path: &Path) -> Option<String> {
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
