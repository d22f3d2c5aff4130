//! Flags may stand before a command's name (`lw -n blue get pods`), and flags without a value may have one (`--all=false`):
//! what kubectl's parser takes and clap's does not is brought into the form that both take.
//!
//! Invariant: nothing that clap would have taken changes its meaning; only the objects' commands are touched.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use listwatch_proto::go_quote::quote;

/// Arguments as the parser takes them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arranged {
    /// With the program's name in front.
    pub(crate) arguments: Vec<OsString>,
    /// The command that is meant, `create configmap`; empty: none was found.
    pub(crate) path: Vec<String>,
}

/// Puts the arguments (the program's name in front) in order for this tree of commands.
///
/// # Errors
/// The text for a flag without a value that was given one that is neither true nor false.
pub(crate) fn arrange(
    root: &Command,
    arguments: Vec<OsString>,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Arranged, String> {
    let untouched = |arguments: Vec<OsString>| Ok(Arranged { arguments, path: Vec::new() });
    let Some(texts) = arguments.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    else {
        return untouched(arguments);
    };
    let walk = walk(root, texts.get(1..).unwrap_or_default());
    match walk.path.first() {
        Some(first) if is_ours(first) => {}
        _ => return untouched(arguments),
    }
    let mut all = vec![texts[0].clone()];
    all.extend(walk.path.iter().cloned());
    let mut is_flag = true;
    for word in walk.flags.into_iter().chain(walk.rest) {
        is_flag &= word != "--";
        match is_flag.then(|| switch(walk.command, &word)).flatten() {
            None => all.push(word),
            Some((flag, Some(true))) => all.push(format!("--{flag}")),
            Some((_, Some(false))) => {}
            Some((flag, None)) => {
                let value = word.split_once('=').map_or("", |(_, value)| value);
                return Err(format!(
                    "invalid argument {value} for \"--{flag}\" flag: strconv.ParseBool: parsing {value}: invalid \
                     syntax\nSee '{} {} --help' for usage.",
                    root.get_name(),
                    walk.path.join(" "),
                    value = quote(&value)
                ));
            }
        }
    }
    Ok(Arranged { arguments: all.into_iter().map(OsString::from).collect(), path: walk.path })
}

struct Walk<'a> {
    command: &'a Command,
    path: Vec<String>,
    /// Those that stood before the end of the path.
    flags: Vec<String>,
    rest: Vec<String>,
}

/// Follows the words that name commands, past flags and their values.
fn walk<'a>(root: &'a Command, words: &[String]) -> Walk<'a> {
    let mut walk = Walk { command: root, path: Vec::new(), flags: Vec::new(), rest: Vec::new() };
    // Flags of the whole command line are those of any command on objects.
    let mut known = root.find_subcommand("get").unwrap_or(root);
    let mut pending = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            walk.rest.push(word.clone());
            break;
        }
        if word.starts_with('-') && word.len() > 1 {
            pending.push(word.clone());
            if takes_next(known, word)
                && let Some(value) = words.next()
            {
                pending.push(value.clone());
            }
            continue;
        }
        let Some(found) = walk.command.find_subcommand(word) else {
            walk.rest.push(word.clone());
            break;
        };
        walk.path.push(found.get_name().to_owned());
        (walk.command, known) = (found, found);
        walk.flags.append(&mut pending);
    }
    pending.extend(walk.rest);
    pending.extend(words.cloned());
    walk.rest = pending;
    walk
}

fn named<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let has = |arg: &&Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| flag[1..].starts_with(short) && flag.len() == 1 + short.len_utf8()),
    };
    command.get_arguments().find(has)
}

/// Whether the word behind this flag is its value.
fn takes_next(command: &Command, flag: &str) -> bool {
    named(command, flag).is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set())
}

/// A flag without a value that was given one, and which; `None`: another word.
fn switch(command: &Command, word: &str) -> Option<(String, Option<bool>)> {
    let (flag, value) = word.strip_prefix("--")?.split_once('=')?;
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return None;
    }
    let value = match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    };
    Some((flag.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn arranged(line: &str) -> Result<String, String> {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let namespace = || Arg::new("namespace").long("namespace").short('n');
        let words = || Arg::new("words").num_args(0..);
        let get = Command::new("get").arg(namespace()).arg(flag("all")).arg(words());
        let secret = Command::new("secret").arg(namespace()).arg(words());
        let create = Command::new("create").arg(namespace()).subcommand(secret);
        let root = Command::new("lw").subcommand(get).subcommand(create).subcommand(Command::new("up").arg(words()));
        let words = line.split_whitespace().map(OsString::from).collect();
        let done = arrange(&root, words, |name| name != "up")?;
        let words: Vec<_> = done.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn flags_come_behind_the_command() {
        for (given, wanted) in [
            ("lw get pods -n a", "lw get pods -n a"),
            ("lw -n a get pods", "lw get -n a pods"),
            ("lw --namespace=a get pods", "lw get --namespace=a pods"),
            ("lw create -n a secret x", "lw create secret -n a x"),
            ("lw create -n a", "lw create -n a"),
            ("lw -n get up pods", "lw -n get up pods"),
            ("lw up -x", "lw up -x"),
            ("lw --help", "lw --help"),
        ] {
            assert_eq!(arranged(given).as_deref(), Ok(wanted), "{given}");
        }
    }

    #[test]
    fn a_switch_may_have_a_value() {
        assert_eq!(
            arranged("lw get --all=true pods -- --all=false").as_deref(),
            Ok("lw get --all pods -- --all=false")
        );
        assert_eq!(arranged("lw get --all=F pods").as_deref(), Ok("lw get pods"));
        let problem = arranged("lw get --all=perhaps").expect_err("refused");
        assert!(problem.starts_with("invalid argument \"perhaps\" for \"--all\" flag: strconv.ParseBool"), "{problem}");
    }
}
