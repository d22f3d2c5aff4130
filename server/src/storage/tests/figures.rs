//! Figures of the engine alone on the real disk, without any door: `cargo test --release -p listwatch-server --lib
//! figures -- --ignored --nocapture --test-threads 1`.

use std::time::Instant;

use crate::storage::{Engine, EngineOptions, KeyRange, Origin, RangeOp, Seams, Txn, WatchOptions};

fn open(dir: &std::path::Path) -> Engine {
    let begun = Instant::now();
    let engine = Engine::open(EngineOptions::new(dir), Seams::real(dir)).expect("the store opens");
    println!("open: {:?}, {} keys, sync {:?}", begun.elapsed(), engine.status().keys, engine.status().sync_cost);
    engine
}

async fn puts(engine: &Engine, clients: usize, total: usize, keys: usize) {
    let value = bytes::Bytes::from(vec![b'v'; 256]);
    let begun = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (engine, value) = (engine.clone(), value.clone());
            tokio::spawn(async move {
                let origin = Origin::anonymous();
                for i in 0..total / clients {
                    let key = format!("/registry/pods/default/pod-{:08}", (client * total / clients + i) % keys);
                    engine.submit(Txn::put(key, value.clone()), &origin).await.expect("written");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let secs = begun.elapsed().as_secs_f64();
    println!("{clients} clients: {:.0} puts/s", total as f64 / secs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures, proves nothing"]
async fn figures() {
    let dir = tempfile::tempdir_in(std::env::var("FIGURES_DIR").unwrap_or("/tmp".into())).expect("a folder");
    let engine = open(dir.path());
    for (clients, total) in [(1, 2000), (16, 20_000), (100, 50_000), (1000, 100_000)] {
        puts(&engine, clients, total, 100_000).await;
    }
    let begun = Instant::now();
    let all = engine.range(&RangeOp::new(KeyRange::all())).expect("read");
    println!("list of {}: {:?}", all.kvs.len(), begun.elapsed());
    drop(all);
    let begun = Instant::now();
    for _ in 0..1000 {
        engine.range(&RangeOp { limit: 1, ..RangeOp::new(KeyRange::all()) }).expect("read");
    }
    println!("limit 1: {:?}", begun.elapsed() / 1000);
    engine.close();
    drop(engine);
    let engine = open(dir.path());
    let begun = Instant::now();
    let all = engine.range(&RangeOp::new(KeyRange::all())).expect("read");
    println!("list of {} after the restart: {:?}", all.kvs.len(), begun.elapsed());
    let begun = Instant::now();
    let revision = engine.revision();
    let mut watcher =
        engine.watch(WatchOptions { prev_kv: false, ..WatchOptions::new(KeyRange::all(), 2) }).expect("begins");
    let mut events = 0;
    while watcher.progress() < revision {
        let crate::storage::WatchMessage::Events { events: more, .. } = watcher.next().await.expect("goes on");
        events += more.len();
    }
    println!("catch-up: {:.0} events/s", events as f64 / begun.elapsed().as_secs_f64());
    drop(watcher);
    fan_out(&engine).await;
    let begun = Instant::now();
    engine.checkpoint().expect("a checkpoint");
    println!("checkpoint of the rest: {:?}", begun.elapsed());
    engine.close();
    drop(engine);
    open(dir.path());
    if std::env::var_os("FIGURES_KEEP").is_some() {
        println!("kept in {}", dir.keep().display());
    }
}

async fn fan_out(engine: &Engine) {
    let total = 2000;
    let watchers: Vec<_> = (0..100)
        .map(|_| {
            let mut watcher = engine.watch(WatchOptions::new(KeyRange::all(), 0)).expect("begins");
            tokio::spawn(async move {
                let mut seen = 0;
                while seen < total {
                    let crate::storage::WatchMessage::Events { events, .. } = watcher.next().await.expect("goes on");
                    seen += events.len();
                }
            })
        })
        .collect();
    let begun = Instant::now();
    puts(engine, 16, total, 1000).await;
    for watcher in watchers {
        watcher.await.expect("no panic");
    }
    println!("fan-out to 100: {:.0} events/s", (100 * total) as f64 / begun.elapsed().as_secs_f64());
}

/// Where a start spends its time, on the folder that `FIGURES_STORE` names.
#[test]
#[ignore = "prints figures, proves nothing"]
fn start_phases() {
    use crate::storage::state::{OpenState, SledOptions, open_store};
    let dir = std::path::PathBuf::from(std::env::var("FIGURES_STORE").expect("FIGURES_STORE names a store"));
    let begun = Instant::now();
    let state = SledOptions::new(dir.join("state")).open().expect("the state opens");
    println!("state opens: {:?}", begun.elapsed());
    let begun = Instant::now();
    let (reader, writer) = open_store(state, || unreachable!("it is there")).expect("the store opens");
    println!("meta: {:?}", begun.elapsed());
    let begun = Instant::now();
    let mut count = 0;
    reader.scan_current(&mut |_| count += 1).expect("scanned");
    println!("{count} records: {:?}", begun.elapsed());
    drop((reader, writer));
    let begun = Instant::now();
    let engine = open(&dir);
    println!("whole: {:?}", begun.elapsed());
    drop(engine);
}
