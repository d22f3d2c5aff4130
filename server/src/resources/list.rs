//! Lists in bounded messages.
//!
//! A list that would be too big for one message ends early with a continue token, whatever limit was asked for: the
//! client goes on from there, in the same snapshot.

use listwatch_proto::resource::Status;
use listwatch_proto::v1;

use super::view::{Viewer, wire_bytes};
use crate::registry::{ListOptions, ListPage, Registry, RequestContext, Target};

/// Bytes of one answer, about: half of what stock gRPC clients take (4 MiB).
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// Objects read at once when nothing is known of their size.
const FIRST_STEP: usize = 64;

/// Objects read at once at most: what is read beyond the budget is read in vain.
const STEP_MAX: usize = 4096;

/// Reads a collection, in steps that fit the budget, all in one snapshot.
pub(super) async fn list(
    registry: &Registry,
    context: &RequestContext,
    target: &Target,
    mut options: ListOptions,
    viewer: &Viewer,
) -> Result<v1::ListResponse, Status> {
    let wanted = usize::try_from(options.limit).ok().filter(|limit| *limit > 0);
    let mut answer = v1::ListResponse { columns: viewer.columns(), ..v1::ListResponse::default() };
    let (mut bytes, mut is_full) = (0, false);
    loop {
        let step = next_step(answer.items.len(), bytes, wanted);
        options.limit = i64::try_from(step).unwrap_or(i64::MAX);
        let mut page = registry.list(context, target, &options).await?;
        answer.revision = page.revision;
        let taken = take(&mut answer, &mut bytes, &page, viewer);
        if taken < page.items.len() {
            is_full = true;
            if taken == 0 {
                // The token of the page before leads to this one.
                break;
            }
            // The same again in the same snapshot, cut where the budget ended: for the token that leads on from there.
            options.limit = i64::try_from(taken).unwrap_or(i64::MAX);
            if options.continue_token.is_empty() {
                options.min_revision = 0;
                options.exact_revision = page.revision;
            }
            page = registry.list(context, target, &options).await?;
        }
        answer.remaining_item_count = page.remaining.unwrap_or(0);
        answer.continue_token = page.continue_token;
        let enough = wanted.is_some_and(|limit| answer.items.len() >= limit);
        if answer.continue_token.is_empty() || enough || is_full || bytes >= ANSWER_BYTES_MAX {
            break;
        }
        // The token carries the snapshot on.
        options.continue_token = answer.continue_token.clone();
        options.min_revision = 0;
        options.exact_revision = 0;
    }
    answer.header = Some(v1::Header {
        revision: registry.revision().max(answer.revision),
        incarnation: registry.incarnation().to_owned(),
    });
    Ok(answer)
}

/// Takes objects of a page while they fit, one in any case; answers how many.
fn take(answer: &mut v1::ListResponse, bytes: &mut usize, page: &ListPage, viewer: &Viewer) -> usize {
    for (taken, item) in page.items.iter().enumerate() {
        let (object, row) = viewer.object(item);
        let size = wire_bytes(&object, row.as_ref());
        if *bytes + size > ANSWER_BYTES_MAX && !answer.items.is_empty() {
            return taken;
        }
        *bytes += size;
        answer.items.push(object);
        answer.rows.extend(row);
    }
    page.items.len()
}

/// How many objects still fit, judged by those already read.
fn next_step(read: usize, bytes: usize, wanted: Option<usize>) -> usize {
    let fitting = match bytes.checked_div(read) {
        None => FIRST_STEP,
        Some(each) => ANSWER_BYTES_MAX.saturating_sub(bytes) / each.max(1),
    };
    let left = wanted.map_or(usize::MAX, |limit| limit - read.min(limit));
    fitting.clamp(1, STEP_MAX).min(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_the_size_of_what_was_read() {
        assert_eq!(next_step(0, 0, None), FIRST_STEP);
        assert_eq!(next_step(0, 0, Some(3)), 3);
        assert_eq!(next_step(64, 64 << 10, None), (ANSWER_BYTES_MAX - (64 << 10)) / 1024);
        assert_eq!(next_step(64, 64 << 10, Some(70)), 6);
        assert_eq!(next_step(64, 64, None), STEP_MAX);
        assert_eq!(next_step(1, ANSWER_BYTES_MAX - 1, None), 1, "a list always gets on");
    }
}
