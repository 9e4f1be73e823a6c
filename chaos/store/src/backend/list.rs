//! Listing with prefix, delimiter and pages: one pure function over a sorted map.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Backend;
use super::error::BackendError;
use super::object::ObjectInfo;

/// Most entries of one page, and what a client gets that does not say.
pub(crate) const MAX_PAGE_ENTRIES: usize = 1_000;

/// What to list.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListQuery<'a> {
    pub(crate) prefix: &'a str,
    /// Never empty: an empty delimiter on the wire means none.
    pub(crate) delimiter: Option<&'a str>,
    /// Start behind this key, or behind all keys of this common prefix.
    pub(crate) after: Option<&'a str>,
    /// Keys and common prefixes together.
    pub(crate) max_entries: usize,
}

/// One page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPage {
    pub(crate) objects: Vec<ObjectInfo>,
    pub(crate) common_prefixes: Vec<String>,
    /// The last key or common prefix of this page if more follow: the `after` of the next one.
    pub(crate) next: Option<String>,
}

/// Lists a sorted map. Skips over each common prefix in one step, so the cost follows the page, not the bucket.
pub(crate) fn list_page<V>(
    map: &BTreeMap<String, V>,
    query: ListQuery<'_>,
    describe: impl Fn(&str, &V) -> ObjectInfo,
) -> ListPage {
    let mut page = ListPage::default();
    if query.max_entries == 0 {
        return page;
    }
    let mut from = first_bound(query);
    let mut last: Option<String> = None;
    while let Some((key, value)) = map.range::<str, _>((from.as_ref().map(String::as_str), Bound::Unbounded)).next() {
        if !key.starts_with(query.prefix) {
            break;
        }
        if page.objects.len() + page.common_prefixes.len() == query.max_entries {
            page.next = last;
            break;
        }
        if let Some(group) = common_prefix(key, query) {
            last = Some(group.to_owned());
            page.common_prefixes.push(group.to_owned());
            let Some(next) = behind_all_with_prefix(group) else { break };
            from = Bound::Included(next);
        } else {
            last = Some(key.clone());
            page.objects.push(describe(key, value));
            from = Bound::Excluded(key.clone());
        }
    }
    page
}

fn first_bound(query: ListQuery<'_>) -> Bound<String> {
    let Some(after) = query.after.filter(|after| *after >= query.prefix) else {
        return Bound::Included(query.prefix.to_owned());
    };
    // A page may have ended with a common prefix: everything in it has been listed.
    if common_prefix(after, query) == Some(after)
        && let Some(next) = behind_all_with_prefix(after)
    {
        return Bound::Included(next);
    }
    Bound::Excluded(after.to_owned())
}

/// The part of the key up to and with the first delimiter behind the prefix.
fn common_prefix<'a>(key: &'a str, query: ListQuery<'_>) -> Option<&'a str> {
    let delimiter = query.delimiter?;
    let rest = key.strip_prefix(query.prefix)?;
    let at = rest.find(delimiter)?;
    Some(&key[..query.prefix.len() + at + delimiter.len()])
}

/// The least string above every string that starts with `prefix`; none if there is no such string.
pub(crate) fn behind_all_with_prefix(prefix: &str) -> Option<String> {
    let mut behind = prefix.to_owned();
    while let Some(last) = behind.pop() {
        // Stepping over the surrogates, which are no characters; above the last character there is none.
        let next = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            behind.push(next);
            return Some(behind);
        }
    }
    None
}

impl Backend {
    /// A page of the bucket as it is.
    pub(crate) fn list(&self, bucket: &str, query: ListQuery<'_>) -> Result<ListPage, BackendError> {
        let state = self.lock();
        let objects = &state.bucket(bucket)?.objects;
        Ok(list_page(objects, query, |key, object| ObjectInfo::of(key, object)))
    }

    /// A page of the bucket as it was `changes_ago` writes and deletes ago; none if it is the same as the present one.
    pub(crate) fn list_past(
        &self,
        bucket: &str,
        query: ListQuery<'_>,
        changes_ago: usize,
    ) -> Result<Option<ListPage>, BackendError> {
        let state = self.lock();
        let bucket = state.bucket(bucket)?;
        let mut old: BTreeMap<String, ObjectInfo> =
            bucket.objects.iter().map(|(key, object)| (key.clone(), ObjectInfo::of(key, object))).collect();
        let present = list_page(&old, query, |_, info| info.clone());
        for (key, before) in bucket.history.iter().rev().take(changes_ago) {
            match before {
                Some(info) => old.insert(key.clone(), info.clone()),
                None => old.remove(key),
            };
        }
        let past = list_page(&old, query, |_, info| info.clone());
        Ok((past != present).then_some(past))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(key: &str) -> ObjectInfo {
        ObjectInfo { key: key.to_owned(), size_bytes: 0, etag: String::new(), last_modified_ms: 0 }
    }

    fn map(keys: &[&str]) -> BTreeMap<String, ()> {
        keys.iter().map(|key| ((*key).to_owned(), ())).collect()
    }

    fn names(page: &ListPage) -> (Vec<&str>, Vec<&str>) {
        let keys = page.objects.iter().map(|object| object.key.as_str()).collect();
        (keys, page.common_prefixes.iter().map(String::as_str).collect())
    }

    #[test]
    fn a_delimiter_groups_and_a_key_beside_its_folder_is_kept() {
        let map = map(&["a", "a/b", "a/c/d", "b/", "c"]);
        let query = ListQuery { delimiter: Some("/"), max_entries: 10, ..Default::default() };
        let page = list_page(&map, query, |key, ()| info(key));
        assert_eq!(names(&page), (vec!["a", "c"], vec!["a/", "b/"]));
        assert_eq!(page.next, None);
        let page = list_page(&map, ListQuery { prefix: "a/", ..query }, |key, ()| info(key));
        assert_eq!(names(&page), (vec!["a/b"], vec!["a/c/"]));
        // A folder marker is an object when its own folder is listed.
        let page = list_page(&map, ListQuery { prefix: "b/", ..query }, |key, ()| info(key));
        assert_eq!(names(&page), (vec!["b/"], vec![]));
    }

    #[test]
    fn pages_of_every_size_give_the_same_listing() {
        let keys = ["a", "a/1", "a/2", "b", "c/1", "c/2", "c/3/x", "d", "é/1", "é/2", "\u{10FFFF}/x"];
        let map = map(&keys);
        for delimiter in [None, Some("/")] {
            let whole_query = ListQuery { delimiter, max_entries: 100, ..Default::default() };
            let whole = list_page(&map, whole_query, |key, ()| info(key));
            for size in 1..=keys.len() {
                let (mut objects, mut groups, mut after, mut pages) = (vec![], vec![], None::<String>, 0);
                loop {
                    let query = ListQuery { after: after.as_deref(), max_entries: size, ..whole_query };
                    let page = list_page(&map, query, |key, ()| info(key));
                    objects.extend(page.objects);
                    groups.extend(page.common_prefixes);
                    pages += 1;
                    assert!(pages <= keys.len(), "paging does not end with size {size}");
                    match page.next {
                        Some(next) => after = Some(next),
                        None => break,
                    }
                }
                assert_eq!((objects, groups), (whole.objects.clone(), whole.common_prefixes.clone()), "size {size}");
            }
        }
    }

    #[test]
    fn a_full_last_page_is_not_truncated() {
        let map = map(&["a", "b"]);
        let query = ListQuery { max_entries: 2, ..Default::default() };
        assert_eq!(list_page(&map, query, |key, ()| info(key)).next, None);
        let query = ListQuery { max_entries: 0, ..Default::default() };
        assert_eq!(list_page(&map, query, |key, ()| info(key)), ListPage::default());
    }
}
