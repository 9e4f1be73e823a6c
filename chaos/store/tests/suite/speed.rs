//! A measurement, not a test.

use std::time::Instant;

use crate::support::Lab;

#[tokio::test]
#[ignore = "a measurement to be looked at, run it with --ignored --nocapture on a quiet machine"]
async fn five_hundred_small_puts_and_gets() {
    let lab = Lab::new().await;
    let begun = Instant::now();
    for i in 0..500 {
        lab.minio_put(&format!("k{i}"), "hello".into(), &[]).await.expect("put");
    }
    let puts = begun.elapsed();
    let begun = Instant::now();
    for i in 0..500 {
        assert_eq!(lab.minio_get(&format!("k{i}")).await.expect("get"), "hello");
    }
    println!("500 puts {puts:?}, 500 gets {:?}", begun.elapsed());
}
