//! What an image's name stands for here: there is no registry and no root file system, so a name is a program.
//!
//! | Image | Program |
//! |---|---|
//! | `soscscs/myapp:TAG`, `listwatch/http:TAG` | built-in web server of version TAG |
//! | `registry.k8s.io/pause:*`, `pause` | built-in, does nothing until it is stopped |
//! | `listwatch/sleep` (args: SECONDS), `listwatch/crash` (args: CODE SECONDS) | built-ins for trials |
//! | `busybox`, `alpine`, `debian`, `ubuntu`, `bash` | the host's command named by `command`, else its shell |
//! | `host/COMMAND` | the host's COMMAND with `args` |
//!
//! `docker.io/` and `library/` in front do not matter. Every other name fails to pull, and the message says this.

use std::path::{Path, PathBuf};

/// The environment variable with the host's search path for commands.
pub const PATH_ENV: &str = "PATH";

/// Where commands are looked for when the kubelet has no `PATH` itself.
pub const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Images that hold nothing but a system of commands, and the command that they run by themselves.
const SYSTEMS: &[(&str, &str)] =
    &[("busybox", "sh"), ("alpine", "sh"), ("debian", "bash"), ("ubuntu", "bash"), ("bash", "bash")];

/// What an image stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// A program inside the program.
    Builtin(BuiltinImage),
    /// A command of the host.
    Host {
        /// What runs when the pod gives no `command`.
        entrypoint: String,
    },
}

/// The built-ins as images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuiltinImage {
    /// The web server of this version.
    Http(String),
    /// Nothing.
    Pause,
    /// Sleeps as long as its arguments say.
    Sleep,
    /// Crashes as its arguments say.
    Crash,
}

/// Why an image cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The name breaks the rules of names.
    #[error("couldn't parse image name {image:?}: invalid reference format")]
    Invalid {
        /// The name.
        image: String,
    },
    /// The name stands for nothing here.
    #[error(
        "the process runtime has no program for image {image:?}: it knows soscscs/myapp, pause, listwatch/http, \
         listwatch/sleep, listwatch/crash, the host's commands through busybox, alpine, debian, ubuntu and bash, and \
         host/COMMAND"
    )]
    Unknown {
        /// The name.
        image: String,
    },
}

/// What to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file; `None` for a built-in, which is this program itself.
    pub path: Option<PathBuf>,
    /// Its name for itself.
    pub name: String,
    /// Its arguments; for a built-in its words.
    pub args: Vec<String>,
}

impl Image {
    /// What the name stands for.
    pub fn resolve(image: &str) -> Result<Image, ImageError> {
        let invalid = || ImageError::Invalid { image: image.to_owned() };
        let (name, tag) = split_tag(image).ok_or_else(invalid)?;
        let short = name.strip_prefix("docker.io/").unwrap_or(name);
        let short = short.strip_prefix("library/").unwrap_or(short);
        let builtin = |builtin| Ok(Image::Builtin(builtin));
        match short {
            "soscscs/myapp" | "listwatch/http" => builtin(BuiltinImage::Http(tag.to_owned())),
            "registry.k8s.io/pause" | "k8s.gcr.io/pause" | "pause" | "listwatch/pause" => builtin(BuiltinImage::Pause),
            "listwatch/sleep" => builtin(BuiltinImage::Sleep),
            "listwatch/crash" => builtin(BuiltinImage::Crash),
            _ => {
                let system = SYSTEMS.iter().find(|(name, _)| *name == short).map(|(_, entrypoint)| *entrypoint);
                match system.or(short.strip_prefix("host/")) {
                    Some(entrypoint) => Ok(Image::Host { entrypoint: entrypoint.to_owned() }),
                    None => Err(ImageError::Unknown { image: image.to_owned() }),
                }
            }
        }
    }

    /// The program that runs, given the pod's `command` (in place of the image's own) and `args`. Whether it is there
    /// and understands its arguments shows when it is started.
    pub fn program(&self, command: &[String], args: &[String]) -> Program {
        if let Some((first, rest)) = command.split_first() {
            let args = rest.iter().chain(args).cloned().collect();
            return host_program(first, args);
        }
        match self {
            Image::Host { entrypoint } => {
                // As with a real image of a system: arguments alone take the place of its default command.
                match args.split_first() {
                    Some((first, rest)) if SYSTEMS.iter().any(|(_, command)| command == entrypoint) => {
                        host_program(first, rest.to_vec())
                    }
                    _ => host_program(entrypoint, args.to_vec()),
                }
            }
            Image::Builtin(builtin) => {
                let words = match builtin {
                    BuiltinImage::Http(version) => vec!["http".to_owned(), version.clone()],
                    BuiltinImage::Pause => vec!["pause".to_owned()],
                    BuiltinImage::Sleep => vec!["sleep".to_owned()],
                    BuiltinImage::Crash => vec!["crash".to_owned()],
                };
                let words: Vec<_> = words.into_iter().chain(args.iter().cloned()).collect();
                let name = words.first().cloned().unwrap_or_default();
                Program { path: None, name, args: words }
            }
        }
    }
}

/// Name and tag of an image; a digest behind counts for nothing, no tag means `latest`.
fn split_tag(image: &str) -> Option<(&str, &str)> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    if image.is_empty() || !image.chars().all(allowed) {
        return None;
    }
    let name = image.split('@').next().unwrap_or(image);
    let (name, tag) = match name.rsplit_once(':') {
        // A colon before a slash is that of a registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (name, "latest"),
    };
    // The path of a name is lower case; only tags and a host command's name may be otherwise.
    let lower = name.starts_with("host/") || !name.chars().any(|c| c.is_ascii_uppercase());
    (lower && !name.is_empty() && !tag.is_empty()).then_some((name, tag))
}

fn host_program(command: &str, args: Vec<String>) -> Program {
    let path = find(command).unwrap_or_else(|| PathBuf::from(command));
    Program { path: Some(path), name: command.to_owned(), args }
}

fn find(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        let path = Path::new(command);
        return (path.is_absolute() && is_executable(path)).then(|| path.to_owned());
    }
    let search = std::env::var(PATH_ENV).unwrap_or_else(|_| PATH_DEFAULT.to_owned());
    std::env::split_paths(&search).map(|dir| dir.join(command)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn names_stand_for_programs() {
        let http = |version: &str| Ok(Image::Builtin(BuiltinImage::Http(version.into())));
        assert_eq!(Image::resolve("soscscs/myapp:v1"), http("v1"));
        assert_eq!(Image::resolve("docker.io/soscscs/myapp:v2"), http("v2"));
        assert_eq!(Image::resolve("soscscs/myapp"), http("latest"));
        assert_eq!(Image::resolve("registry.k8s.io/pause:3.10"), Ok(Image::Builtin(BuiltinImage::Pause)));
        assert_eq!(
            Image::resolve("docker.io/library/busybox:1.28@sha256:0"),
            Ok(Image::Host { entrypoint: "sh".into() })
        );
        assert_eq!(Image::resolve("host/sleep"), Ok(Image::Host { entrypoint: "sleep".into() }));
        assert_eq!(Image::resolve("nginx:1.27"), Err(ImageError::Unknown { image: "nginx:1.27".into() }));
        assert_eq!(
            Image::resolve("localhost:5000/busybox"),
            Err(ImageError::Unknown { image: "localhost:5000/busybox".into() })
        );
        for image in ["", "a b", "Nginx", "busybox:", ":v1"] {
            assert_eq!(Image::resolve(image), Err(ImageError::Invalid { image: image.into() }), "{image:?}");
        }
    }

    #[test]
    fn command_and_args_follow_the_rules_of_images() {
        let check = |image: &str, command: &str, args: &str, expected: &str| {
            let program = Image::resolve(image).expect(image).program(&words(command), &words(args));
            assert_eq!([vec![program.name], program.args].concat().join(" "), expected);
        };
        check("busybox", "", "", "sh");
        check("busybox", "sleep 3600", "", "sleep 3600");
        check("busybox", "", "sleep 60", "sleep 60");
        check("busybox", "sh -c", "true", "sh -c true");
        check("host/sleep", "", "5", "sleep 5");
        check("soscscs/myapp:v1", "", "", "http http v1");
        check("listwatch/crash", "", "3", "crash crash 3");
        let missing = Image::resolve("busybox").expect("known").program(&words("no-such-command-here"), &[]);
        assert_eq!(missing.path, Some(PathBuf::from("no-such-command-here")));
    }
}
