# Toxiproxy's tests of its API, made to reach a server that runs already: at `api`, with `at` for fixed addresses.
/^var testServer/d
/^func WithServer/,/^}/d
/^	"\(flag\|os\|time\)"$/d
/^	"github.com\/\(prometheus\/client_golang\/prometheus\|rs\/zerolog\|Shopify\/toxiproxy\/v2\)"$/d
s#"http://\(127.0.0.1\|localhost\):8475\(/*[a-z]*\)"#api + "\2"#
s#listen tcp 127.0.0.1:3310:#listen tcp " + at("127.0.0.1", 3310) + ":#
/`/s#localhost:7070#localhost:0#
/`/!s#"\(localhost\|127.0.0.1\):\([1-9][0-9]*\)"#at("\1", \2)#g
