//! Which log is asked for and what of it: the path and the query of `/containerLogs` (Kubernetes 1.36).

/// One container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogPath {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
}

/// What of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LogQuery {
    /// Go on as it grows, until the container ends.
    pub(super) follow: bool,
    /// Of the run before the last one.
    pub(super) previous: bool,
    /// Each line with its time in front.
    pub(super) timestamps: bool,
    /// Only so many lines from the end.
    pub(super) tail_lines: Option<u64>,
    /// Only what was written in the last seconds.
    pub(super) since_seconds: Option<u64>,
    /// At most so many bytes.
    pub(super) limit_bytes: Option<u64>,
}

impl LogPath {
    /// Reads `/containerLogs/NAMESPACE/POD/CONTAINER`.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix("/containerLogs/")?.split('/').map(decode);
        let parsed = LogPath { namespace: parts.next()??, pod: parts.next()??, container: parts.next()?? };
        parts.next().is_none().then_some(parsed)
    }
}

impl LogQuery {
    /// Reads a query; the error names the parameter.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut log = LogQuery::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || value.parse().map(Some).map_err(|_| format!("{name}={value} is not a number"));
            let truth = || match value {
                "" | "true" | "1" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(format!("{name}={value} is neither true nor false")),
            };
            match name {
                "follow" => log.follow = truth()?,
                "previous" => log.previous = truth()?,
                "timestamps" => log.timestamps = truth()?,
                "tailLines" => log.tail_lines = number()?,
                "sinceSeconds" => log.since_seconds = number()?,
                "limitBytes" => log.limit_bytes = number()?,
                _ => return Err(format!("parameter {name} is not supported")),
            }
        }
        Ok(log)
    }
}

/// Undoes `%2F`; `None` if it is not well formed or not text.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(*rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_container() {
        let path = LogPath::parse("/containerLogs/default/web%2D1/app").expect("a path");
        assert_eq!((path.namespace.as_str(), path.pod.as_str(), path.container.as_str()), ("default", "web-1", "app"));
        for path in [
            "/containerLogs/a/b",
            "/containerLogs/a/b/c/d",
            "/containerLogs/a//c",
            "/logs/a/b/c",
            "/containerLogs/a/%zz/c",
        ] {
            assert_eq!(LogPath::parse(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let query = LogQuery::parse("follow=true&tailLines=0&limitBytes=7&timestamps=1").expect("a query");
        let expected = LogQuery {
            follow: true,
            timestamps: true,
            tail_lines: Some(0),
            limit_bytes: Some(7),
            ..LogQuery::default()
        };
        assert_eq!(query, expected);
        assert_eq!(LogQuery::parse("stream=Stdout"), Err("parameter stream is not supported".into()));
        assert_eq!(LogQuery::parse("tailLines=x"), Err("tailLines=x is not a number".into()));
        assert_eq!(LogQuery::parse("follow=maybe"), Err("follow=maybe is neither true nor false".into()));
    }
}
