module stormproof/clients

go 1.24

require github.com/Shopify/toxiproxy/v2 v2.12.0
