//! What is asked for: the paths and queries of `/containerLogs`, `/exec`, `/attach` and `/portForward` (Kubernetes 1.36).

use super::super::runtime::seam::Interaction;

/// One container, or a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// Empty if only the pod is meant.
    pub(super) container: String,
}

/// What the paths are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A container's log.
    Logs,
    /// A command beside a container.
    Exec,
    /// A container's own output, as it comes.
    Attach,
    /// A pod's ports.
    PortForward,
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
    /// Each piece with its channel in front, and only of these: standard output, standard error.
    pub(super) channels: Option<(bool, bool)>,
}

impl Place {
    /// Reads `/PURPOSE/NAMESPACE/POD/CONTAINER`; forwarded ports are the whole pod's.
    pub(super) fn parse(path: &str) -> Option<(Purpose, Self)> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let purpose = match parts.next()? {
            "containerLogs" => Purpose::Logs,
            "exec" => Purpose::Exec,
            "attach" => Purpose::Attach,
            "portForward" => Purpose::PortForward,
            _ => return None,
        };
        let mut parts = parts.map(decode);
        let (namespace, pod) = (parts.next()??, parts.next()??);
        let container = if purpose == Purpose::PortForward { String::new() } else { parts.next()?? };
        parts.next().is_none().then_some((purpose, Place { namespace, pod, container }))
    }
}

/// Reads the query of a command: `command` once for each word, and which of its streams are wanted.
pub(super) fn interaction(query: &str) -> Result<Interaction, String> {
    let mut asked = Interaction::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "command" => {
                let word = decode_any(value).ok_or_else(|| format!("{pair} is not text"))?;
                asked.command.push(word);
            }
            "input" => asked.stdin = truth(name, value)?,
            "output" => asked.stdout = truth(name, value)?,
            "error" => asked.stderr = truth(name, value)?,
            "tty" => asked.tty = truth(name, value)?,
            _ => return Err(format!("parameter {name} is not supported")),
        }
    }
    if !(asked.stdin || asked.stdout || asked.stderr) {
        return Err("you must specify at least 1 of stdin, stdout, stderr".to_owned());
    }
    if asked.tty {
        // A terminal has one output.
        asked.stderr = false;
    }
    Ok(asked)
}

/// Reads the ports of a query, in their order.
pub(super) fn ports(query: &str) -> Result<Vec<u16>, String> {
    let mut ports = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "port" {
            return Err(format!("parameter {name} is not supported"));
        }
        ports.push(value.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("{pair} is not a port"))?);
    }
    Ok(ports)
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "" | "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("{name}={value} is neither true nor false")),
    }
}

impl LogQuery {
    /// Reads a query; the error names the parameter.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut log = LogQuery::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || value.parse().map(Some).map_err(|_| format!("{name}={value} is not a number"));
            let truth = || truth(name, value);
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

/// Undoes `%2F`; `None` if it is not well formed, not text, or nothing.
fn decode(text: &str) -> Option<String> {
    decode_any(text).filter(|text| !text.is_empty())
}

/// Undoes `%2F`; `None` if it is not well formed or not text.
fn decode_any(text: &str) -> Option<String> {
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
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_a_container() {
        let read = |path: &str| {
            Place::parse(path).map(|(purpose, place)| (purpose, place.namespace, place.pod, place.container))
        };
        let web = |purpose, container: &str| Some((purpose, "default".into(), "web-1".into(), container.into()));
        assert_eq!(read("/containerLogs/default/web%2D1/app"), web(Purpose::Logs, "app"));
        assert_eq!(read("/exec/default/web-1/app"), web(Purpose::Exec, "app"));
        assert_eq!(read("/attach/default/web-1/app"), web(Purpose::Attach, "app"));
        assert_eq!(read("/portForward/default/web-1"), web(Purpose::PortForward, ""));
        for path in [
            "/containerLogs/a/b",
            "/containerLogs/a/b/c/d",
            "/containerLogs/a//c",
            "/logs/a/b/c",
            "/containerLogs/a/%zz/c",
            "/portForward/a/b/c",
            "/exec/a/b",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
    }

    #[test]
    fn a_command_is_read_word_by_word() {
        let asked = interaction("command=sh&command=-c&command=echo%20%22a%26b%22&command=&input=1&output=1&error=1");
        let asked = asked.expect("a command");
        assert_eq!(asked.command, ["sh", "-c", "echo \"a&b\"", ""]);
        assert!(asked.stdin && asked.stdout && asked.stderr && !asked.tty);
        assert!(!interaction("command=sh&output=1&error=1&tty=1").expect("a command").stderr, "a terminal has one");
        let none = "you must specify at least 1 of stdin, stdout, stderr";
        assert_eq!(interaction("command=sh"), Err(none.to_owned()));
        assert_eq!(interaction("user=root&output=1"), Err("parameter user is not supported".to_owned()));
    }

    #[test]
    fn ports_are_numbers() {
        assert_eq!(ports("port=80&port=8080"), Ok(vec![80, 8080]));
        for bad in ["port=0", "port=65536", "port=x", "port"] {
            assert_eq!(ports(bad), Err(format!("{bad} is not a port")));
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
