INSERT INTO holdfast.blob_names VALUES (1000003, convert_to('08ab7ff9919e95bb7b16356e17db21faf3201fe517e3271cad2d0fc9c3ad4579', 'UTF8'), 68);
INSERT INTO holdfast.blob_names VALUES (1000003, convert_to('30eeec92315b9e5246577ed144907a697d331b9183df3c991de9ebd33fa9798b', 'UTF8'), 1208);
