//! What a refusal of the parser is called in kubectl's words (1.36).

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use listwatch_proto::go_quote::quote;

use super::Arranged;

/// How different a word may be from a command's name to be taken for a slip (cobra's number).
const SLIP_MAX: usize = 2;

/// The text for a person, without `error: `; `None`: help, which is no refusal.
pub(crate) fn refusal(error: &clap::Error, root: &Command, arranged: &Arranged) -> Option<String> {
    let command = std::iter::once(root.get_name()).chain(arranged.path.iter().map(String::as_str));
    let command = command.collect::<Vec<_>>().join(" ");
    let usage = format!("See '{command} --help' for usage.");
    let words: Vec<String> = arranged.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let argument = text(error, ContextKind::InvalidArg);
    let value = text(error, ContextKind::InvalidValue);
    Some(match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return None;
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand);
            if arranged.path.is_empty() {
                format!(
                    "unknown command {word} for {}{}",
                    quote(&root.get_name()),
                    suggestions(root, &word),
                    word = quote(&word)
                )
            } else {
                let rest = words.iter().skip_while(|other| **other != word).cloned().collect::<Vec<_>>().join(" ");
                format!("unknown command {rest}\nSee '{command} -h' for help and examples", rest = quote(&rest))
            }
        }
        ErrorKind::UnknownArgument if argument.starts_with("--") => {
            format!("unknown flag: {}\n{usage}", argument.split('=').next().unwrap_or_default())
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let letter = argument.chars().nth(1).unwrap_or('-');
            let is_it = |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.contains(letter);
            let group = words.iter().find(is_it).unwrap_or(&argument);
            format!("unknown shorthand flag: '{letter}' in {group}\n{usage}")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument {argument}\n{usage}", argument = quote(&argument)),
        ErrorKind::InvalidValue if value.is_empty() => {
            let last = words.last().map_or("", String::as_str);
            match last.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.chars().last()) {
                Some(letter) => format!("flag needs an argument: '{letter}' in {last}\n{usage}"),
                None => format!("flag needs an argument: {}\n{usage}", long(&argument)),
            }
        }
        ErrorKind::InvalidValue => choice(&argument, &value).unwrap_or_else(|| first_line(error)),
        ErrorKind::ValueValidation => {
            format!(
                "invalid argument {value} for {} flag: {}\n{usage}",
                quote(&shown(root, arranged, &argument)),
                why(error, &value),
                value = quote(&value)
            )
        }
        ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) if missing.iter().all(|arg| arg.starts_with("--")) => {
                let names: Vec<_> = missing.iter().map(|arg| quote(long(arg).trim_start_matches('-'))).collect();
                format!("required flag(s) {} not set", names.join(", "))
            }
            _ => first_line(error),
        },
        _ => first_line(error),
    })
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// `--output` of `--output <FORM>`.
fn long(argument: &str) -> &str {
    argument.split([' ', '=', '[']).next().unwrap_or(argument)
}

/// `-r, --replicas`.
fn shown(root: &Command, arranged: &Arranged, argument: &str) -> String {
    let long = long(argument);
    let command = arranged.path.iter().try_fold(root, |command, word| command.find_subcommand(word));
    let arg = command.and_then(|c| c.get_arguments().find(|arg| arg.get_long() == long.strip_prefix("--")));
    match arg.and_then(clap::Arg::get_short) {
        Some(short) => format!("-{short}, {long}"),
        None => long.to_owned(),
    }
}

/// Why a value is none: numbers in Go's words.
fn why(error: &clap::Error, value: &str) -> String {
    use std::error::Error;
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    if cause.contains("invalid digit") || cause.contains("cannot parse integer") {
        return format!("strconv.ParseInt: parsing {}: invalid syntax", quote(&value));
    }
    if cause.contains("number too large") || cause.contains("number too small") || cause.contains(" is not in ") {
        return format!("strconv.ParseInt: parsing {}: value out of range", quote(&value));
    }
    cause
}

/// A value that is none of those that a flag of kubectl's takes.
fn choice(argument: &str, value: &str) -> Option<String> {
    Some(match long(argument) {
        "--dry-run" => format!("Invalid dry-run value ({value}). Must be \"none\", \"server\", or \"client\"."),
        "--cascade" => {
            format!("invalid cascade value ({value}). Must be \"background\", \"foreground\", or \"orphan\"")
        }
        "--validate" => {
            format!(
                "invalid - validate option {}; must be one of: strict (or true), warn, ignore (or false)",
                quote(&value)
            )
        }
        _ => return None,
    })
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// The commands that a slip may have meant.
fn suggestions(root: &Command, word: &str) -> String {
    let word = word.to_lowercase();
    let shown = root.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let near: Vec<_> = shown.filter(|name| name.starts_with(&word) || distance(&word, name) <= SLIP_MAX).collect();
    match near.as_slice() {
        [] => String::new(),
        names => format!("\n\nDid you mean this?\n\t{}", names.join("\n\t")),
    }
}

/// How many letters must be changed, added or taken away (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, value_parser};
    use std::ffi::OsString;

    fn told(line: &str) -> String {
        let replicas = Arg::new("replicas").long("replicas").short('r').value_parser(value_parser!(i32));
        let image = Arg::new("image").long("image").required(true);
        let get = Command::new("get").arg(Arg::new("output").short('o').long("output")).arg(Arg::new("kind"));
        let create = Command::new("create").subcommand(Command::new("deployment").arg(replicas).arg(image));
        let root = Command::new("lw").subcommand(Command::new("set")).subcommand(get).subcommand(create);
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let arranged = super::super::arrange(&root, words, |_| true).expect("words");
        let error = root.clone().try_get_matches_from(&arranged.arguments).expect_err("refused");
        refusal(&error, &root, &arranged).expect("no help")
    }

    /// As recorded with kubectl 1.36.
    #[test]
    fn refusals_are_in_kubectls_words() {
        for (line, text) in [
            ("lw gett pods", "unknown command \"gett\" for \"lw\"\n\nDid you mean this?\n\tset\n\tget"),
            ("lw frobnicate", "unknown command \"frobnicate\" for \"lw\""),
            ("lw get pods --colour", "unknown flag: --colour\nSee 'lw get --help' for usage."),
            ("lw get pods -o", "flag needs an argument: 'o' in -o\nSee 'lw get --help' for usage."),
            ("lw get pods --output", "flag needs an argument: --output\nSee 'lw get --help' for usage."),
            ("lw get pods -q", "unknown shorthand flag: 'q' in -q\nSee 'lw get --help' for usage."),
            (
                "lw create deployment --image=y --replicas=a",
                "invalid argument \"a\" for \"-r, --replicas\" flag: strconv.ParseInt: parsing \"a\": invalid \
                 syntax\nSee 'lw create deployment --help' for usage.",
            ),
            ("lw create deployment", "required flag(s) \"image\" not set"),
            ("lw create frob x y", "unknown command \"frob x y\"\nSee 'lw create -h' for help and examples"),
        ] {
            assert_eq!(told(line), text, "{line}");
        }
    }

    #[test]
    fn distances_are_counted() {
        for (a, b, far) in
            [("gett", "get", 1), ("gett", "set", 2), ("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), far);
        }
    }
}
