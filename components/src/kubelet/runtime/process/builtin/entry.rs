//! Which built-in is meant, and the ones that fit in a few lines.

use std::{process::ExitCode, str::FromStr, thread, time::Duration};

use super::http;

/// A program inside the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Builtin {
    /// Does nothing until it is stopped.
    Pause,
    /// Answers HTTP as version so-and-so of the demo application.
    Http {
        /// `v1`.
        version: String,
    },
    /// Ends well after a time.
    Sleep {
        /// Until then it runs.
        time: Duration,
    },
    /// Ends badly after a time.
    Crash {
        /// Until then it runs.
        time: Duration,
        /// The exit code.
        code: u8,
    },
}

/// No built-in is called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a built-in: known are pause, http VERSION, sleep SECONDS, crash [CODE [SECONDS]]")]
pub struct UnknownBuiltin(pub String);

impl Builtin {
    /// The words by which [`Builtin::from_str`] knows it again.
    pub fn words(&self) -> Vec<String> {
        match self {
            Builtin::Pause => vec!["pause".into()],
            Builtin::Http { version } => vec!["http".into(), version.clone()],
            Builtin::Sleep { time } => vec!["sleep".into(), time.as_secs_f64().to_string()],
            Builtin::Crash { time, code } => {
                vec!["crash".into(), code.to_string(), time.as_secs_f64().to_string()]
            }
        }
    }

    /// Reads the words of a command line.
    pub fn parse(words: &[String]) -> Result<Self, UnknownBuiltin> {
        let unknown = || UnknownBuiltin(words.join(" "));
        let seconds = |word: Option<&String>| match word {
            None => Some(Duration::ZERO),
            Some(word) => word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        let (name, rest) = words.split_first().ok_or_else(unknown)?;
        match (name.as_str(), rest) {
            ("pause", []) => Ok(Builtin::Pause),
            ("http", [version]) => Ok(Builtin::Http { version: version.clone() }),
            ("sleep", [time]) => seconds(Some(time)).map(|time| Builtin::Sleep { time }).ok_or_else(unknown),
            ("crash", []) => Ok(Builtin::Crash { time: Duration::ZERO, code: 1 }),
            ("crash", [code, time @ ..]) if time.len() <= 1 => {
                let code = code.parse().map_err(|_| unknown())?;
                seconds(time.first()).map(|time| Builtin::Crash { time, code }).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

impl FromStr for Builtin {
    type Err = UnknownBuiltin;

    fn from_str(text: &str) -> Result<Self, UnknownBuiltin> {
        Self::parse(&text.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }
}

/// Runs a built-in to its end.
pub fn run(builtin: &Builtin) -> ExitCode {
    match builtin {
        Builtin::Pause => {
            end_well_on_sigterm();
            loop {
                thread::park();
            }
        }
        Builtin::Http { version } => {
            end_well_on_sigterm();
            match http::serve(version) {
                Ok(never) => match never {},
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
        Builtin::Sleep { time } => {
            thread::sleep(*time);
            ExitCode::SUCCESS
        }
        Builtin::Crash { time, code } => {
            thread::sleep(*time);
            eprintln!("crashing with code {code}, as told");
            ExitCode::from(*code)
        }
    }
}

extern "C" fn leave(_signal: libc::c_int) {
    // SAFETY: _exit is allowed in a signal handler.
    unsafe { libc::_exit(0) }
}

/// A server that is asked to stop has done its work: exit code 0, as the original images do.
fn end_well_on_sigterm() {
    let handler: extern "C" fn(libc::c_int) = leave;
    // SAFETY: the handler makes only a call that is allowed there.
    unsafe {
        libc::signal(libc::SIGTERM, handler as libc::sighandler_t);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_built_ins_are_two_forms_of_one() {
        for text in ["pause", "http v2", "sleep 3600", "sleep 0.5", "crash 7 0", "crash 3 1.5"] {
            let builtin: Builtin = text.parse().expect(text);
            assert_eq!(builtin.words().join(" "), text);
        }
        assert_eq!("crash".parse(), Ok(Builtin::Crash { time: Duration::ZERO, code: 1 }));
        for text in ["", "nap", "pause 3", "sleep", "sleep -1", "sleep x", "crash 300", "http"] {
            assert_eq!(text.parse::<Builtin>(), Err(UnknownBuiltin(text.to_owned())));
        }
    }
}
