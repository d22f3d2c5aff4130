//! The parameters of a request, read as kube-apiserver reads them (Kubernetes 1.36, `internalversion.ListOptions` and its
//! validation).

use std::time::Duration;

use listwatch_proto::go_quote::{quote, quote_in_time};
use listwatch_proto::resource::{Cause, Object, Status};

use crate::registry::{
    DeleteOptions, FieldValidation, ListOptions, WatchOptions, WriteOptions, is_dry_run, manager_faults,
};

/// The parameters, in order. Of several of one name the first counts.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// What a GET of a collection asks.
#[derive(Debug)]
pub(super) enum Read {
    /// A list.
    List(ListOptions),
    /// A watch.
    Watch(Watching),
}

/// What a watch asks.
#[derive(Debug)]
pub(super) struct Watching {
    /// For the registry.
    pub(super) options: WatchOptions,
    /// Ends the stream cleanly after so many seconds, 0 for less than none; `None` = the server's own limit.
    pub(super) timeout_seconds: Option<u64>,
    /// Whether the client sees bookmarks.
    pub(super) bookmarks: bool,
}

impl Query {
    /// Reads the part of a URI behind the question mark.
    pub(super) fn read(text: &str) -> Query {
        let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
        // Some clients begin with `?&`.
        Query(pairs.filter(|(key, _)| !key.is_empty()).collect())
    }

    /// The value of a parameter; empty if it is not given.
    pub(super) fn text(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// All values of a parameter, in their order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is there, empty or not.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Go's conversion of a query parameter to a bool: everything but `false` and `0` is true, also nothing.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.given(name).map(|text| !text.eq_ignore_ascii_case("false") && text != "0")
    }

    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.given(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                Status::bad_request(format!(
                    "strconv.ParseInt: parsing {text}: {}",
                    go_words(&error),
                    text = quote(&text)
                ))
            }),
        }
    }

    /// Reads what a GET of a collection asks. `watch`: it was asked for by the path.
    pub(super) fn list_or_watch(&self, watch: bool) -> Result<Read, Status> {
        self.read_collection(watch || self.flag("watch").unwrap_or(false))
    }

    fn read_collection(&self, watch: bool) -> Result<Read, Status> {
        if let Some(selector) = self.given("shardSelector").filter(|s| !s.is_empty()) {
            return Err(Status::bad_request(format!("shardSelector {} is not served", quote(&selector))));
        }
        let (limit, timeout) = (self.int("limit")?.unwrap_or(0), self.int("timeoutSeconds")?);
        self.check(watch)?;
        let text = |name| self.text(name).to_owned();
        if !watch {
            let mut options = ListOptions {
                label_selector: text("labelSelector"),
                field_selector: text("fieldSelector"),
                limit,
                continue_token: text("continue"),
                ..ListOptions::default()
            };
            self.pin(&mut options)?;
            return Ok(Read::List(options));
        }
        let start = revision(self.text("resourceVersion")).map_err(Status::without_reason)?;
        // Without a revision a watch begins with the state, unless the client says that it does not want it.
        let initial = self.flag("sendInitialEvents").unwrap_or(start == 0);
        Ok(Read::Watch(Watching {
            options: WatchOptions {
                label_selector: text("labelSelector"),
                field_selector: text("fieldSelector"),
                start_revision: start,
                send_initial_events: initial,
                allow_bookmarks: true,
                ..WatchOptions::default()
            },
            timeout_seconds: timeout.filter(|seconds| *seconds != 0).map(|seconds| u64::try_from(seconds).unwrap_or(0)),
            bookmarks: self.flag("allowWatchBookmarks").unwrap_or(false),
        }))
    }

    /// The time that a client gives a request, in Go's words for durations: `5s`, `1m30s`; less than nothing is nothing.
    ///
    /// # Errors
    /// `BadRequest` for what is none.
    pub(super) fn timeout(&self) -> Result<Option<Duration>, Status> {
        match self.text("timeout") {
            "" => Ok(None),
            text => match go_duration(text) {
                Some(duration) => Ok(Some(duration)),
                None => Err(Status::bad_request(format!(
                    "invalid timeout specified in the request URL - time: invalid duration {}",
                    quote_in_time(text)
                ))),
            },
        }
    }

    /// Which snapshot a list reads: the table of `reference` in Kubernetes' API concepts.
    fn pin(&self, options: &mut ListOptions) -> Result<(), Status> {
        let text = self.text("resourceVersion");
        let at =
            revision(text).map_err(|message| Status::bad_request(format!("invalid resource version: {message}")))?;
        if !options.continue_token.is_empty() {
            if at > 0 {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Ok(());
        }
        match self.text("resourceVersionMatch") {
            "Exact" => options.exact_revision = at,
            // A page from a revision is exactly that revision: an old rule that clients rely on.
            "" if options.limit > 0 && at > 0 => options.exact_revision = at,
            _ => options.min_revision = at,
        }
        if text.chars().all(|c| c == '0') && !text.is_empty() {
            // "Any" state is served whole.
            options.limit = 0;
        }
        Ok(())
    }

    /// The combinations that are refused, each fault in upstream's words.
    fn check(&self, watch: bool) -> Result<(), Status> {
        let (version, matching) = (self.text("resourceVersion"), self.text("resourceVersionMatch"));
        let (initial, continued) = (self.flag("sendInitialEvents"), !self.text("continue").is_empty());
        let mut faults = Vec::new();
        if watch {
            match initial {
                Some(_) if matching != "NotOlderThan" => {
                    faults.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
                }
                None if !matching.is_empty() => faults.push(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                )),
                _ => {}
            }
            if !matching.is_empty() && matching != "NotOlderThan" {
                faults.push(unsupported(matching, "\"NotOlderThan\""));
            }
            if continued {
                faults.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
            }
        } else {
            if initial.is_some() {
                let message = "Forbidden: sendInitialEvents is forbidden for list";
                faults.push(fault("FieldValueForbidden", "sendInitialEvents", message.to_owned()));
            }
            if !matching.is_empty() {
                if version.is_empty() {
                    faults.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
                }
                if continued {
                    faults.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
                }
                if !matches!(matching, "Exact" | "NotOlderThan") {
                    faults.push(unsupported(matching, "\"Exact\", \"NotOlderThan\", \"\""));
                }
                if matching == "Exact" && version == "0" {
                    faults.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Status::invalid_options("ListOptions", faults)) }
    }

    /// The revision that a GET of one object names: not older than it.
    pub(super) fn min_revision(&self) -> Result<i64, Status> {
        // Upstream finds it out in its store, and has no reason for what goes wrong there.
        revision(self.text("resourceVersion")).map_err(Status::without_reason)
    }

    /// Which objects of a collection are deleted.
    pub(super) fn list_of_deletion(&self) -> Result<ListOptions, Status> {
        // A deletion lists, whatever else is said.
        match self.read_collection(false)? {
            Read::List(options) => Ok(options),
            Read::Watch(_) => Err(Status::internal("a list was read as a watch")),
        }
    }

    /// How a write is done; `form` is what upstream calls its options.
    pub(super) fn write_options(&self, form: &str) -> Result<WriteOptions, Status> {
        let words: Vec<&str> = self.all("dryRun").collect();
        let mut faults = Vec::new();
        let dry_run = is_dry_run(&words).unwrap_or_else(|fault| {
            faults.push(fault);
            false
        });
        let field_validation = match self.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                let message = format!(
                    "Unsupported value: {}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                    quote(other)
                );
                faults.push(fault("FieldValueNotSupported", "fieldValidation", message));
                FieldValidation::Warn
            }
        };
        let field_manager = self.text("fieldManager").to_owned();
        if faults.is_empty() {
            return Ok(WriteOptions { dry_run, field_validation, field_manager });
        }
        // The registry judges the manager of every write; beside other faults it is told with them.
        let faults = manager_faults(&field_manager).into_iter().chain(faults).collect();
        Err(Status::invalid_options(form, faults))
    }

    /// Whether a GET may be answered: what once asked for another form of the object is refused.
    ///
    /// # Errors
    /// `BadRequest`.
    pub(super) fn check_export(&self) -> Result<(), Status> {
        match self.given("export") {
            None | Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Ok(()),
            Some("1" | "t" | "T" | "true" | "True" | "TRUE") => {
                Err(Status::bad_request("the export parameter, deprecated since v1.14, is no longer supported"))
            }
            Some(other) => Err(Status::bad_request(format!(
                "the export parameter cannot be parsed: strconv.ParseBool: parsing {}: invalid syntax",
                quote(other)
            ))),
        }
    }

    /// Whether an apply takes fields over from other managers.
    pub(super) fn force(&self) -> bool {
        self.flag("force").unwrap_or(false)
    }

    /// How a delete is done, where there is no body.
    pub(super) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let mut asked = Object::default();
        if let Some(seconds) = self.int("gracePeriodSeconds")? {
            asked.set(&["gracePeriodSeconds"], seconds);
        }
        if let Some(policy) = self.given("propagationPolicy") {
            asked.set(&["propagationPolicy"], policy);
        }
        if let Some(orphan) = self.flag("orphanDependents") {
            asked.set(&["orphanDependents"], orphan);
        }
        asked.set(&["dryRun"], self.all("dryRun").collect::<Vec<_>>());
        for condition in ["uid", "resourceVersion"] {
            if !self.text(condition).is_empty() {
                asked.set(&["preconditions", condition], self.text(condition));
            }
        }
        DeleteOptions::judged(&asked)
    }

    /// Which form of the object a row of a table carries: `None`, `Metadata` or `Object`.
    pub(super) fn include_object(&self) -> &str {
        self.text("includeObject")
    }
}

/// A revision as a parameter names it; nothing and 0 are 0.
fn revision(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let refused = |why: &str| {
        format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: {why}", text = quote(&text))
    };
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refused("invalid syntax"));
    }
    let value: u64 = text.parse().map_err(|_| refused("value out of range"))?;
    // No store gets there; what lies beyond is as far in the future as the last revision.
    Ok(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A duration as Go writes it; none below zero.
fn go_duration(text: &str) -> Option<Duration> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let is_below_zero = text.starts_with('-');
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(digits);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        seconds += number.parse::<f64>().ok()? * UNITS.iter().find(|(name, _)| *name == unit)?.1;
        rest = behind;
    }
    if text.is_empty() {
        return None;
    }
    let whole = Duration::try_from_secs_f64(seconds).ok()?;
    Some(if is_below_zero { Duration::ZERO } else { whole })
}

fn go_words(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    if matches!(error.kind(), PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" }
}

fn fault(reason: &str, field: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), field: field.to_owned(), message }
}

fn forbidden(why: &str) -> Cause {
    fault("FieldValueForbidden", "resourceVersionMatch", format!("Forbidden: {why}"))
}

fn unsupported(value: &str, supported: &str) -> Cause {
    let message = format!("Unsupported value: {value}: supported values: {supported}", value = quote(&value));
    fault("FieldValueNotSupported", "resourceVersionMatch", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> ListOptions {
        match Query::read(text).list_or_watch(false).expect("taken") {
            Read::List(options) => options,
            Read::Watch(watch) => panic!("not a list: {watch:?}"),
        }
    }

    fn watch(text: &str) -> Watching {
        match Query::read(text).list_or_watch(false).expect("taken") {
            Read::Watch(watch) => watch,
            Read::List(list) => panic!("not a watch: {list:?}"),
        }
    }

    fn refused(text: &str) -> String {
        Query::read(text).list_or_watch(false).expect_err("refused").message
    }

    #[test]
    fn a_list_reads_the_snapshot_that_its_parameters_name() {
        let pinned = |text: &str| {
            let options = list(text);
            (options.min_revision, options.exact_revision, options.limit)
        };
        assert_eq!(pinned(""), (0, 0, 0));
        assert_eq!(pinned("resourceVersion=7"), (7, 0, 0));
        assert_eq!(pinned("resourceVersion=7&limit=2"), (0, 7, 2));
        assert_eq!(pinned("resourceVersion=7&limit=2&resourceVersionMatch=NotOlderThan"), (7, 0, 2));
        assert_eq!(pinned("resourceVersion=7&resourceVersionMatch=Exact"), (0, 7, 0));
        assert_eq!(pinned("resourceVersion=0&limit=2"), (0, 0, 0));
        assert_eq!(pinned("limit=-1"), (0, 0, -1));
    }

    #[test]
    fn every_fault_of_the_options_of_a_write_is_told_at_once() {
        let long = "x".repeat(129);
        let text = format!("dryRun=foo&fieldValidation=x&fieldManager={long}");
        let status = Query::read(&text).write_options("CreateOptions").expect_err("refused");
        assert_eq!(
            status.message,
            "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Too long: may not be more than 128 bytes, dryRun: \
             Unsupported value: [\"foo\"]: supported values: \"All\", fieldValidation: Unsupported value: \"x\": supported \
             values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
        assert!(Query::read("dryRun=All&dryRun=All").write_options("CreateOptions").expect("taken").dry_run);
    }

    #[test]
    fn what_was_once_exported_is_no_longer() {
        let export = |text: &str| Query::read(text).check_export().err().map(|status| status.message);
        for taken in ["", "export=false", "export=0&export=1"] {
            assert_eq!(export(taken), None, "{taken}");
        }
        let refused = "the export parameter, deprecated since v1.14, is no longer supported";
        assert_eq!(export("export=1").as_deref(), Some(refused));
        let odd = "the export parameter cannot be parsed: strconv.ParseBool: parsing \"\": invalid syntax";
        assert_eq!(export("export").as_deref(), Some(odd));
    }

    #[test]
    fn a_deletion_lists_whatever_else_is_said() {
        assert!(Query::read("watch=1&timeoutSeconds=-1").list_of_deletion().is_ok());
    }

    #[test]
    fn a_client_may_give_a_request_its_time() {
        let timeout = |text: &str| Query::read(text).timeout().map_err(|status| status.message);
        assert_eq!(timeout(""), Ok(None));
        assert_eq!(timeout("timeout=5s"), Ok(Some(Duration::from_secs(5))));
        assert_eq!(timeout("timeout=1m1.5s"), Ok(Some(Duration::from_millis(61_500))));
        assert_eq!(timeout("timeout=0"), Ok(Some(Duration::ZERO)));
        for text in ["-5s", "-0", "-1h30m"] {
            assert_eq!(timeout(&format!("timeout={text}")), Ok(Some(Duration::ZERO)), "{text}");
        }
        for wrong in ["5", "s", "-", "--5s", "5x", "1e9999h"] {
            let message = "invalid timeout specified in the request URL - time: invalid duration";
            let refused = Err(format!("{message} {wrong:?}"));
            assert_eq!(timeout(&format!("timeout={wrong}")), refused, "{wrong}");
        }
    }

    #[test]
    fn a_watch_without_revision_begins_with_the_state() {
        let begins = |text: &str| (watch(text).options.start_revision, watch(text).options.send_initial_events);
        for text in ["watch", "watch=1", "watch=true", "watch=yes", "&watch=1&resourceVersion=0"] {
            assert_eq!(begins(text), (0, true), "{text}");
        }
        assert_eq!(begins("watch=1&resourceVersion=7"), (7, false));
        let state = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(begins(&format!("watch=1&resourceVersion=7{state}")), (7, true));
        assert_eq!(watch("watch=1&timeoutSeconds=-3").timeout_seconds, Some(0));
        assert_eq!(watch("watch=1&timeoutSeconds=0").timeout_seconds, None);
        assert!(list("watch=false").continue_token.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_refused_in_upstreams_words() {
        assert_eq!(
            refused("resourceVersionMatch=Bad&limit=1"),
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden \
             unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"Bad\": supported values: \
             \"Exact\", \"NotOlderThan\", \"\"]"
        );
        assert_eq!(refused("limit=x"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(refused("limit="), "strconv.ParseInt: parsing \"\": invalid syntax");
        assert_eq!(
            refused("resourceVersion=-1"),
            "invalid resource version: resourceVersion: Invalid value: \"-1\": strconv.ParseUint: parsing \"-1\": invalid \
             syntax"
        );
        assert_eq!(
            refused("continue=x&resourceVersion=5"),
            "specifying resource version is not allowed when using continue"
        );
    }
}
